"""`verify` finds the violation of every recovery rule."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.findings import Finding, Severity, Verification
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import (
    offsets_text,
    state_version,
    stateful,
    stateless,
    write,
)


def verified(root: Path) -> Verification:
    return verify(CheckpointView(root))


def the_finding(root: Path, file: str) -> Finding:
    (finding,) = [f for f in verified(root).findings if f.file == file]
    assert finding.spark
    assert finding.penstock
    assert finding.remedy
    return finding


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
        (_write("commits/3", "v9\n{}"), "commits/3", "Failed to read", "runs again"),
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


@pytest.mark.parametrize("provider", ["hdfs", "rocksdb"])
def test_missing_state_is_an_error_with_a_rewind_as_remedy(checkpoint: Path, provider: str) -> None:
    stateful(checkpoint, provider=provider)
    (checkpoint / f"state/0/1/4.{'delta' if provider == 'hdfs' else 'changelog'}").unlink()
    finding = the_finding(checkpoint, "state/0/1")
    assert "CANNOT_LOAD_STATE_STORE" in finding.spark
    assert "--to 2" in finding.remedy


def test_state_of_a_partition_that_was_never_written_is_missed(checkpoint: Path) -> None:
    stateful(checkpoint)
    for path in (checkpoint / "state/0/1").iterdir():
        path.unlink()
    (checkpoint / "state/0/1").rmdir()
    assert not verified(checkpoint).will_restart


def test_state_after_the_newest_batch_is_an_error_with_a_rewind_as_remedy(checkpoint: Path) -> None:
    """The result of deleting log entries by hand, as Spark's error message advises."""
    stateful(checkpoint, 6)
    state_version(checkpoint, 0, 6, "snapshot")
    for batch in (4, 5):
        for name in (f"offsets/{batch}", f"commits/{batch}"):
            (checkpoint / name).unlink()
    finding = the_finding(checkpoint, "state/0/0/6.snapshot")
    assert "silently wrong" in finding.spark
    assert "rewind" in finding.remedy
    assert "--to 3" in finding.remedy


def test_the_state_of_a_planned_batch_is_not_ahead(checkpoint: Path) -> None:
    stateful(checkpoint, planned=True)
    state_version(checkpoint, 0, 5, "snapshot")
    assert verified(checkpoint).will_restart


def test_state_without_any_batch_is_an_error(checkpoint: Path) -> None:
    state_version(checkpoint, 0, 1, "delta")
    assert "should be empty on batch 0" in the_finding(checkpoint, "state").spark


def rocks_zip(path: Path, table: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        metadata = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": table}]}
        archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")


def test_a_snapshot_whose_table_is_gone_is_an_error(checkpoint: Path) -> None:
    stateful(checkpoint, provider="rocksdb")
    rocks_zip(checkpoint / "state/0/0/4.zip", "000009-x.sst")
    assert "SSTs/000009-x.sst" in the_finding(checkpoint, "state/0/0/4.zip").problem
    write(checkpoint / "state/0/0/SSTs/000009-x.sst", "table")
    assert verified(checkpoint).will_restart


def test_a_snapshot_that_is_no_archive_is_an_error(checkpoint: Path) -> None:
    stateful(checkpoint, provider="rocksdb")
    write(checkpoint / "state/0/0/4.zip", "not a zip")
    assert "cannot be read" in the_finding(checkpoint, "state/0/0/4.zip").problem


@pytest.mark.parametrize("exists", [True, False])
def test_the_schema_path_of_a_copied_checkpoint_is_found(
    checkpoint: Path, tmp_path: Path, exists: bool
) -> None:
    stateful(checkpoint)
    schema = tmp_path / "other/state/0/_stateSchema/default/0_x"
    if exists:
        write(schema, "schema")
    text = json.dumps({"stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{schema}"]}]})
    write(checkpoint / "state/0/_metadata/v2/0", f"v2\n{text}")
    finding = the_finding(checkpoint, "state/0/_metadata/v2/0")
    assert finding.severity is (Severity.WARNING if exists else Severity.ERROR)
    assert "fork" in finding.remedy


def test_temporary_files_are_only_an_info(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/.4.abc.tmp", "half", twin=False)
    assert the_finding(checkpoint, "offsets/.4.abc.tmp").severity is Severity.INFO


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
