"""`verify` finds the violation of every recovery rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint import CheckpointDirectory, LocalFiles
from penstock.checkpoint.paths import files_below
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.findings import Severity
from penstock.checkpoint.tools.inspect import inspect
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointNotEmptyError
from tests.checkpoint.tools.checkpoints import (
    forbid_listing,
    forbid_reading,
    offsets_text,
    stateful,
    stateless,
    write,
)
from tests.checkpoint.tools.verifying import rocks_zip, the_finding, verified


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("make", [stateless, stateful])
def test_a_sound_checkpoint_has_no_findings(
    checkpoint: Path, make: Callable[..., Path], planned: bool
) -> None:
    verification = verified(make(checkpoint, planned=planned))
    assert verification.findings == ()
    assert verification.will_restart
    assert (verification.next_batch, verification.is_planned) == (4, planned)


def test_a_new_checkpoint_is_no_error(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    assert the_finding(checkpoint, "metadata").severity is Severity.INFO
    assert verified(checkpoint).will_restart


def _remove(*names: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for name in names:
            (root / name).unlink()

    return damage


def _write(name: str, text: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        write(root / name, text)

    return damage


@pytest.mark.parametrize(
    ("damage", "file", "spark", "remedy"),
    [
        (_remove("metadata"), "metadata", "inconsistent state", "restore"),
        (_write("metadata", "{"), "metadata", "JSON error", "restore"),
        (_remove("offsets/2"), "offsets/2", "batch 2 doesn't exist", "rewind .* --to 1"),
        (_write("offsets/3", ""), "offsets/3", "Failed to read log file", "restore"),
        (_write("offsets/2", "v1\n{"), "offsets/2", "Failed to read log file", "restore"),
        (_write("commits/3", "v1\n{"), "commits/3", "Failed to read", "runs again"),
        (
            _remove("offsets/3"),
            "commits/3",
            "written twice, and then fails: Concurrent update",
            "rewind .* --to 2",
        ),
        (_remove("commits/3", "commits/2"), "commits/1", "not trailing batchid 3 by one", "to 1"),
        (
            _write("offsets/3", offsets_text(['{"logOffset":3}', "1"])),
            "offsets/2",
            r"There are \[1 or 2\] sources in the checkpoint offsets",
            "restore",
        ),
        (_remove("sources/0/1"), "sources/0/1", "doesn't exist", "restore"),
        (_write("sources/0/3", ""), "sources/0/3", "Incomplete log file", "restore"),
        (_write("sources/0/4", "v1\n{"), "sources/0/4", "JSON", "rm .*4: no batch uses it"),
    ],
)
def test_what_makes_a_restart_fail_is_an_error(
    checkpoint: Path, damage: Callable[[Path], None], file: str, spark: str, remedy: str
) -> None:
    damage(stateless(checkpoint))
    assert not verified(checkpoint).will_restart
    findings = [f for f in verified(checkpoint).findings if f.file == file]
    assert findings, verified(checkpoint).findings
    assert findings[0].severity is Severity.ERROR
    assert re.search(spark, findings[0].spark), findings[0]
    assert re.search(remedy, findings[0].remedy), findings[0]


def test_a_torn_planned_entry_may_be_moved_away(checkpoint: Path) -> None:
    stateless(checkpoint, planned=True)
    write(checkpoint / "offsets/4", "")
    assert "planned anew" in the_finding(checkpoint, "offsets/4").remedy


NEWEST = ["offsets/4", "commits/3", "sources/0/4"]


@pytest.mark.parametrize("name", NEWEST)
def test_an_entry_of_a_newer_version_is_not_called_damaged(checkpoint: Path, name: str) -> None:
    """Moved away, its batch would run again, or be planned anew."""
    stateless(checkpoint, planned=True)
    write(checkpoint / name, "v4\n{}")
    finding = the_finding(checkpoint, name)
    assert finding.severity is Severity.ERROR
    assert "encountered v4" in finding.problem
    assert "damaged" not in finding.problem
    assert re.fullmatch("keep .*, and use a Spark and a Penstock that read .*", finding.remedy)


@pytest.mark.parametrize("name", NEWEST)
def test_an_entry_that_this_user_may_not_read_is_not_called_damaged(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stateless(checkpoint, planned=True)
    forbid_reading(monkeypatch, checkpoint / name)
    finding = the_finding(checkpoint, name)
    assert finding.severity is Severity.ERROR
    assert "Permission denied" in finding.problem
    assert "damaged" not in finding.problem
    assert re.fullmatch("keep .*, make it readable .*", finding.remedy)


@pytest.mark.parametrize("name", NEWEST)
def test_an_entry_that_is_not_text_is_damaged(checkpoint: Path, name: str) -> None:
    stateless(checkpoint, planned=True)
    write(checkpoint / name, b"v1\n\xff")
    finding = the_finding(checkpoint, name)
    assert "damaged" in finding.problem
    assert "keep" not in finding.remedy


def test_a_query_without_any_commit_is_a_warning(checkpoint: Path) -> None:
    stateless(checkpoint, 2)
    for batch in range(2):
        (checkpoint / f"commits/{batch}").unlink()
    assert the_finding(checkpoint, "commits").severity is Severity.WARNING


@pytest.mark.parametrize("name", ["offsets/0", "commits/1"])
@pytest.mark.parametrize("how", ["torn", "missing"])
def test_old_entries_affect_rewinds_only(checkpoint: Path, name: str, how: str) -> None:
    stateless(checkpoint, 6)
    if how == "torn":
        write(checkpoint / name, "")
    else:
        (checkpoint / name).unlink()
        if name == "offsets/0":
            return  # as after a purge
    assert the_finding(checkpoint, name).severity is Severity.WARNING
    assert verified(checkpoint).will_restart


def test_a_gap_in_the_logs_is_a_warning(checkpoint: Path) -> None:
    stateless(checkpoint, 6)
    (checkpoint / "offsets/2").unlink()
    assert "missing in between: 2" in the_finding(checkpoint, "offsets/2").problem


def test_a_gap_of_a_trillion_entries_is_reported(checkpoint: Path) -> None:
    """Its numbers do not fit into memory."""
    stateless(checkpoint)
    for log in ("offsets", "commits", "sources/0"):
        source = checkpoint / log / "3"
        (checkpoint / log / "1731801600000").write_bytes(source.read_bytes())
    (finding,) = [f for f in verified(checkpoint).findings if f.file == "commits/4"]
    assert "missing in between: 4 to 1731801599999." in finding.problem
    (finding,) = [f for f in verified(checkpoint).findings if f.file == "sources/0/4"]
    assert "up to 1731801599999" in finding.problem


@pytest.mark.parametrize("name", ["state/0/²", "state/²", "offsets/²", "offsets/" + "9" * 20])
def test_a_name_that_is_no_number_of_java_is_ignored(checkpoint: Path, name: str) -> None:
    stateful(checkpoint)
    write(checkpoint / name, "x", twin=False)
    assert verified(checkpoint).will_restart
    assert verified(checkpoint).next_batch == 4


def test_a_watermark_that_goes_back_is_a_warning(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/3", offsets_text(['{"logOffset":3}'], watermark=5))
    finding = the_finding(checkpoint, "offsets/3")
    assert "from 30 in commits/2 to 5" in finding.problem
    assert finding.severity is Severity.WARNING


def test_old_entries_with_other_sources_are_only_an_info(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/1", offsets_text(["1", "2"], 10))
    assert the_finding(checkpoint, "offsets/1").severity is Severity.INFO


def test_a_stale_checksum_is_a_warning(checkpoint: Path) -> None:
    stateless(checkpoint)
    (checkpoint / "offsets/3").write_text(offsets_text(['{"logOffset":3}'], watermark=31))
    finding = the_finding(checkpoint, "offsets/.3.crc")
    assert finding.severity is Severity.WARNING
    assert "made for other content" in finding.problem


@pytest.mark.parametrize("name", ["state/0/0/4.zip", "state/0/0/SSTs/000009-x.sst"])
def test_a_stale_checksum_of_rocksdb_is_an_error(checkpoint: Path, name: str) -> None:
    stateful(checkpoint, provider="rocksdb")
    rocks_zip(checkpoint / "state/0/0/4.zip", "000009-x.sst")
    write(checkpoint / "state/0/0/SSTs/000009-x.sst", "table")
    path = checkpoint / name
    twin = path.with_name(f".{path.name}.crc")
    twin.write_bytes(b"crc\x00\x00\x00\x02\x00" + bytes(4))
    finding = the_finding(checkpoint, twin.relative_to(checkpoint).as_posix())
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("part", ["state", "state/0", "state/0/0", "offsets"])
def test_checksums_behind_a_link_are_checked(checkpoint: Path, tmp_path: Path, part: str) -> None:
    stateful(checkpoint, provider="rocksdb")
    for path in (checkpoint / "state/0/0/4.changelog", checkpoint / "offsets/3"):
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\x00\x00\x00\x02\x00" + bytes(4))
    before = verified(checkpoint).findings
    (checkpoint / part).rename(tmp_path / "large disk")
    (checkpoint / part).symlink_to(tmp_path / "large disk")
    assert len(before) == 2
    assert verified(checkpoint).findings == before


def test_a_directory_that_cannot_be_read_is_an_error(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stateful(checkpoint)
    forbid_listing(monkeypatch, checkpoint / "state/0/1")
    with pytest.raises(PermissionError, match="state/0/1"):
        list(files_below(checkpoint))


def test_a_directory_beside_the_checkpoint_is_not_read(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume has `lost+found` in its root, which only its administrator may read."""
    stateful(checkpoint)
    (checkpoint / "lost+found").mkdir()
    write(checkpoint / ".metadata.1.tmp", "half", twin=False)
    forbid_listing(monkeypatch, checkpoint / "lost+found")
    [finding] = verified(checkpoint).findings
    assert finding.file == ".metadata.1.tmp"
    report = inspect(CheckpointView(checkpoint))
    assert [part.name for part in report.sizes] == ["commits", "offsets", "sources", "state"]


def test_a_checksum_file_without_its_file_is_only_an_info(checkpoint: Path) -> None:
    stateless(checkpoint)
    (checkpoint / "offsets/0").unlink()
    assert the_finding(checkpoint, "offsets/.0.crc").severity is Severity.INFO


@pytest.mark.parametrize("directory", ["offsets", "commits", "sources/0"])
def test_a_checksum_file_of_a_future_entry_is_an_error(checkpoint: Path, directory: str) -> None:
    """Spark then fails with the message about a concurrent query."""
    stateless(checkpoint)
    (checkpoint / directory / ".4.crc").write_bytes(b"crc")
    finding = the_finding(checkpoint, f"{directory}/.4.crc")
    assert finding.severity is Severity.ERROR
    assert f"concurrently using {directory}" in finding.spark
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 3))
    assert verified(checkpoint).findings == ()


def test_a_checksum_file_of_future_state_is_only_an_info(checkpoint: Path) -> None:
    stateful(checkpoint)
    (checkpoint / "state/0/0/.5.delta.crc").write_bytes(b"crc")
    assert the_finding(checkpoint, "state/0/0/.5.delta.crc").severity is Severity.INFO


def test_a_checksum_file_of_another_kind_is_passed_over(checkpoint: Path) -> None:
    stateless(checkpoint)
    (checkpoint / "offsets/.0.crc").write_bytes(b"short")
    (checkpoint / "offsets/.1.crc").write_bytes(b"unknown header")
    assert verified(checkpoint).findings == ()


@pytest.mark.parametrize("planned", [False, True])
def test_a_log_of_a_source_that_may_not_be_read_is_reported(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    stateless(checkpoint, 1, planned=planned)
    for batch in range(1 + planned):
        forbid_reading(monkeypatch, checkpoint / f"sources/0/{batch}")
    finding = the_finding(checkpoint, "sources/0/0")
    assert finding.severity is Severity.ERROR
    assert "cannot be read: " in finding.problem
    assert "Permission denied" in finding.problem
    assert "make it readable" in finding.remedy


def test_temporary_files_are_only_an_info(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/.4.abc.tmp", "half", twin=False)
    assert the_finding(checkpoint, "offsets/.4.abc.tmp").severity is Severity.INFO


@pytest.mark.parametrize("name", ["offsets/.0.abc.tmp", "commits/.0.abc.tmp", "offsets/notes"])
def test_a_leftover_in_an_empty_log_keeps_newer_versions_of_spark_from_starting(
    checkpoint: Path, name: str
) -> None:
    write(checkpoint / name, "half", twin=True)
    finding = the_finding(checkpoint, name)
    assert finding.severity is Severity.WARNING
    assert re.search("4.1 and newer fail: .* should be empty on batch 0", finding.spark)
    assert finding.penstock == "ignores it"
    assert f"rm {checkpoint / name}" in finding.remedy
    assert verified(checkpoint).will_restart


def test_commits_without_an_offset_log_keep_both_engines_from_starting(checkpoint: Path) -> None:
    stateless(checkpoint)
    for path in (checkpoint / "offsets").iterdir():
        path.unlink()
    finding = the_finding(checkpoint, "commits/3")
    with pytest.raises(CheckpointNotEmptyError) as caught:
        CheckpointDirectory(LocalFiles(checkpoint)).verify_new()
    message = finding.penstock.removeprefix("fails: ")
    assert message in str(caught.value)
    assert f"4.1 and newer fail: {message}" in finding.spark
    assert "new directory" in finding.remedy


def test_the_most_severe_finding_is_first(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/.4.abc.tmp", "half", twin=False)
    write(checkpoint / "commits/3", "")
    severities = [finding.severity for finding in verified(checkpoint).findings]
    assert severities[0] is Severity.ERROR
    assert severities[-1] is Severity.INFO


@pytest.mark.parametrize("planned", [False, True])
def test_a_file_of_the_planned_batch_that_is_gone_is_lost_data(
    checkpoint: Path, tmp_path: Path, planned: bool
) -> None:
    stateless(checkpoint, planned=planned)
    newest = 4 if planned else 3
    file = tmp_path / "a file.txt"
    file.write_text("rows")
    entry = {"path": file.as_uri(), "timestamp": 1, "batchId": newest}
    write(checkpoint / f"sources/0/{newest}", f"v1\n{json.dumps(entry)}")
    assert verified(checkpoint).findings == ()
    file.unlink()
    if not planned:
        assert verified(checkpoint).findings == ()
        return
    finding = the_finding(checkpoint, "sources/0")
    assert finding.severity is Severity.ERROR
    assert f"Batch 4 is planned with {file}," in finding.problem
    assert not verified(checkpoint).will_restart
