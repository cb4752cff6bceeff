"""The commands and the quarantine of a checkpoint: listed, shown, deleted, restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.checkpoint.quarantine_log import (
    BatchFailure,
    KeptRange,
    LeftOutPart,
    QuarantineRecord,
)
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.findings import Severity
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.quarantine_files import quarantine_report
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.cli.main import app
from penstock.errors import MalformedLogError
from tests.checkpoint.tools.checkpoints import content_of, forbid_reading, stateless, write

FILE = LeftOutPart(
    "0",
    "FileStreamSource[/in]",
    "cannot parse",
    "file",
    file="file:///in/7.json",
    modified_ms=5,
    bytes=12,
)
RECORDS = LeftOutPart("1", "KafkaV2[t]", "KeyError: 'id'", "record", start="4", end="5", size=1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Four committed batches and a planned one, of which 2 and 4 leave something out."""
    root = stateless(tmp_path / "checkpoint", planned=True)
    directory = CheckpointView(root).directory
    directory.quarantine.make_directory()
    directory.failures.make_directory()
    kept = (KeptRange("1", "0", "4"),)
    records = {2: (FILE,), 4: (RECORDS, FILE)}
    for batch, parts in records.items():
        record = QuarantineRecord(1000 + batch, 1_700_000_000_000, "/aside", parts, kept)
        assert directory.quarantine.add(batch, record)
    directory.failures.append(BatchFailure(4, 1004, 1_700_000_000_000, "KeyError: 'id'"))
    return root


def records_of(root: Path) -> list[int]:
    return CheckpointView(root).directory.quarantine.list_batches()


def failures_of(root: Path) -> list[int]:
    return CheckpointView(root).directory.failures.list_batches()


def run(*arguments: object) -> tuple[int, str]:
    command = ["quarantine", *map(str, arguments)]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "120"})
    return result.exit_code, result.output


def test_a_record_is_read_as_it_was_written(checkpoint: Path) -> None:
    text = (checkpoint / ".penstock/quarantine/4").read_text()
    assert text.startswith('v1\n{"batchTimestampMs":1004,"timeMs":1700000000000,"path":"/aside",')
    report = quarantine_report(CheckpointView(checkpoint))
    assert [batch.parts for batch in report.batches] == [(FILE,), (RECORDS, FILE)]
    assert [batch.is_committed for batch in report.batches] == [True, False]


def test_list(checkpoint: Path) -> None:
    code, text = run("list", checkpoint)
    assert code == 0
    assert [line.split() for line in text.splitlines()] == [
        ["batch", "time", "parts", "state", "copied", "to"],
        ["2", "2023-11-14", "22:13:20", "1", "committed", "/aside"],
        ["4", "2023-11-14", "22:13:20", "2", "not", "committed", "/aside"],
        ["Batch", "4", "failed", "at", "2023-11-14", "22:13:20:", "KeyError:", "'id'"],
    ]


def test_list_of_a_checkpoint_without_a_quarantine(tmp_path: Path) -> None:
    root = stateless(tmp_path / "checkpoint", planned=True)
    before = content_of(root)
    assert run("list", root) == (0, "No batch leaves anything out.\n")
    assert content_of(root) == before


def test_show(checkpoint: Path) -> None:
    code, text = run("show", checkpoint, 4)
    assert code == 0
    assert text.splitlines() == [
        "Batch 4, not committed, copied to /aside",
        "part 0  KafkaV2[t]",
        "  after  4",
        "  up to  5",
        "  error  KeyError: 'id'",
        "part 1  FileStreamSource[/in]",
        "  file   file:///in/7.json, 12 bytes",
        "  error  cannot parse",
    ]


def test_json(checkpoint: Path) -> None:
    code, text = run("list", checkpoint, "--json")
    listed = json.loads(text)
    assert code == 0
    assert [batch["batch"] for batch in listed["batches"]] == [2, 4]
    assert listed["failures"][0]["error"] == "KeyError: 'id'"
    shown = json.loads(run("show", checkpoint, 2, "--json")[1])
    assert shown == listed["batches"][0]
    assert shown["parts"] == [
        {
            "source": "FileStreamSource[/in]",
            "file": "file:///in/7.json",
            "bytes": 12,
            "unit": "file",
            "error": "cannot parse",
        }
    ]


def test_a_batch_that_leaves_out_nothing(checkpoint: Path) -> None:
    code, text = run("show", checkpoint, 3)
    assert code == 2
    assert "Batch 3 of" in text
    assert "leaves out nothing; those that do are 2, 4." in " ".join(text.split())


def test_a_record_that_cannot_be_read(checkpoint: Path) -> None:
    write(checkpoint / ".penstock/quarantine/4", "v1\n{", twin=False)
    assert "not readable" in run("list", checkpoint)[1]
    assert "is empty or truncated" in " ".join(run("show", checkpoint, 4)[1].split())


@pytest.mark.parametrize(
    ("to", "records", "failures"), [(3, [2], []), (2, [2], []), (1, [], []), (0, [], [])]
)
def test_rewind_deletes_the_records_of_batches_that_are_planned_anew(
    checkpoint: Path, to: int, records: list[int], failures: list[int]
) -> None:
    before = content_of(checkpoint)
    view = CheckpointView(checkpoint)
    made = backup.apply(view.root, surgery.rewind(view, to))
    assert (records_of(checkpoint), failures_of(checkpoint)) == (records, failures)
    backup.revert(view.root, made)
    after = {k: v for k, v in content_of(checkpoint).items() if "backups" not in k}
    assert after == before


@pytest.mark.parametrize("text", ["", "v1\n{", "v9\n{}"])
def test_a_failure_that_cannot_be_read_is_listed_and_deleted(checkpoint: Path, text: str) -> None:
    """It may be of the batch that is planned anew. It must not keep a command from its work."""
    file = write(checkpoint / ".penstock/failures/7", text, twin=False)
    code, output = run("list", checkpoint)
    assert code == 0
    assert "Batch 4 failed at" in output
    assert f"not readable: Failed to read log file {file}." in " ".join(output.split())
    listed = json.loads(run("list", checkpoint, "--json")[1])
    assert len(listed["failures"]) == len(listed["problems"]) == 1
    view = CheckpointView(checkpoint)
    backup.apply(view.root, surgery.replan(view))
    assert (records_of(checkpoint), failures_of(checkpoint)) == ([2], [])


def test_a_failure_that_cannot_be_read_has_a_remedy_of_its_own(checkpoint: Path) -> None:
    file = write(checkpoint / ".penstock/failures/7", "", twin=False)
    log = CheckpointView(checkpoint).directory.failures
    with pytest.raises(MalformedLogError, match=r"Move .*/7 away .* then not counted\.$") as caught:
        log.of_plan(4, 1004)
    assert str(file) in str(caught.value)
    assert "planned anew" not in str(caught.value)


def test_replan_deletes_the_record_of_the_planned_batch(checkpoint: Path) -> None:
    view = CheckpointView(checkpoint)
    backup.apply(view.root, surgery.replan(view))
    assert (records_of(checkpoint), failures_of(checkpoint)) == ([2], [])


def test_verify_tells_what_the_planned_batch_leaves_out(checkpoint: Path) -> None:
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert (finding.severity, finding.file) == (Severity.INFO, ".penstock/quarantine/4")
    assert finding.problem == "Batch 4 leaves out 2 parts that make it fail."


def test_verify_finds_a_record_of_another_plan(checkpoint: Path) -> None:
    file = checkpoint / ".penstock/quarantine/4"
    file.write_text(file.read_text().replace(":1004", ":1005"))
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert finding.severity is Severity.WARNING
    assert "another plan of batch 4" in finding.problem


def test_verify_finds_a_record_that_cannot_be_read(checkpoint: Path) -> None:
    write(checkpoint / ".penstock/quarantine/4", "v1\n{", twin=False)
    verification = verify(CheckpointView(checkpoint))
    assert not verification.will_restart
    assert verification.findings[0].file == ".penstock/quarantine/4"
    assert "or remove it" in verification.findings[0].remedy


def test_a_record_of_a_newer_version_is_to_be_kept(checkpoint: Path) -> None:
    """Without it the batch would run with what makes it fail."""
    file = write(checkpoint / ".penstock/quarantine/4", "v9\n{}", twin=False)
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert "encountered v9" in finding.problem
    assert finding.remedy.startswith(f"keep {file}, and use")


def test_what_may_not_be_read_is_reported(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [failure] = (checkpoint / ".penstock/failures").iterdir()
    record = checkpoint / ".penstock/quarantine/4"
    forbid_reading(monkeypatch, failure)
    forbid_reading(monkeypatch, record)
    [finding] = verify(CheckpointView(checkpoint)).findings
    assert "Permission denied" in finding.problem
    assert finding.remedy.startswith(f"keep {record}, make it readable")
    report = quarantine_report(CheckpointView(checkpoint))
    assert "Permission denied" in (report.batches[-1].problem or "")
    assert "Permission denied" in report.problems[0]


def test_a_fork_has_no_records(checkpoint: Path, tmp_path: Path) -> None:
    made = fork(CheckpointView(checkpoint), tmp_path / "fork", at=3)
    assert records_of(tmp_path / "fork") == []
    assert made.path == tmp_path / "fork"
