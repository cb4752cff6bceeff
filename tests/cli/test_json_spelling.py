"""All JSON of ours has its keys in camelCase, as Spark's has; keys of users stay as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.api.doctor import Diagnosis, Finding
from penstock.checkpoint.lock import CheckpointLock
from penstock.checkpoint.quarantine_log import BatchFailure, LeftOutPart, QuarantineRecord
from penstock.checkpoint.tools.quarantine_files import QuarantinedBatch, QuarantineReport
from penstock.cli.main import app
from penstock.cli.output import JsonOutput
from penstock.debug.bisect_report import BisectReport, BisectTrial, SourceRange
from penstock.debug.quarantine_retry import RetriedPart, RetryReport
from penstock.engine.faults import FaultPoint
from penstock.observe.health import check_health
from penstock.spark.jvm.support import Verdict
from penstock.testing.crash_faults import BatchPoint
from penstock.testing.crash_report import CrashReport, Trial
from tests.checkpoint.tools.checkpoints import stateful, stateless, two_sources
from tests.snapshots import snapshot

CHECKPOINT_COMMANDS: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "show": (stateful, ("2",)),
    "verify": (stateful, ()),
    "diff": (stateful, ("{other}",)),
    "fork": (stateless, ("{other}",)),
    "rewind": (stateful, ("--to", "1")),
    "replan": (lambda root: stateless(root, planned=True), ()),
    "skip": (lambda root: stateless(root, planned=True), ()),
    "set-offset": (two_sources, ("0", '{"logOffset":1}')),
    "add-source": (two_sources, ()),
    "remove-source": (two_sources, ("1",)),
    "reorder-sources": (two_sources, ("1", "0")),
    "undo": (stateless, ()),
    "unlock": (stateless, ()),
}
REPORTS = {"doctor", "crashtest", "bisect", "list", "retry", "repartition"}
PLACE = BatchPoint(FaultPoint.AFTER_SINK, 1)
RANGE = SourceRange("a source", "1", "2", ("a_file",), 1, "file")


def keys_of(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from document
        document = list(document.values())
    if isinstance(document, list):
        for member in document:
            yield from keys_of(member)


def underscored(document: Any) -> list[str]:
    keys = list(keys_of(document))
    assert keys
    return [key for key in keys if "_" in key]


def invoke(*words: object) -> Any:
    return json.loads(CliRunner().invoke(app, [*map(str, words), "--json"]).stdout)


def test_every_command_that_prints_json_is_looked_at_here() -> None:
    def commands(group: Any) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            yield from commands(command) if hasattr(command, "commands") else [(name, command)]

    with_json = {
        name
        for name, command in commands(typer.main.get_command(app))
        if any("--json" in option.opts for option in command.params)
    }
    assert with_json == CHECKPOINT_COMMANDS.keys() | REPORTS


@pytest.mark.parametrize("command", CHECKPOINT_COMMANDS)
def test_of_a_checkpoint(command: str, checkpoint: Path, tmp_path: Path) -> None:
    make, arguments = CHECKPOINT_COMMANDS[command]
    make(checkpoint)
    other = tmp_path / "other"
    if command == "diff":
        stateless(other)
    if command == "undo":
        assert underscored(invoke("checkpoint", "rewind", checkpoint, "--to", 1, "--yes")) == []
        (manifest,) = checkpoint.glob(".penstock/backups/*/manifest.json")
        assert underscored(json.loads(manifest.read_text())) == []
    rest = [word.format(other=other) if word == "{other}" else word for word in arguments]
    document = invoke("checkpoint", command, checkpoint, *rest)
    assert "error" not in document
    assert underscored(document) == []


@pytest.mark.since("4.2", "repartitioning of state")
def test_of_a_repartitioning(checkpoint: Path) -> None:
    stateful(checkpoint, 3, provider="rocksdb")
    document = invoke("checkpoint", "repartition", checkpoint, "--to", 5)
    assert "error" not in document
    assert underscored(document) == []


def test_of_a_whole_checkpoint_with_a_key_of_a_user(checkpoint: Path) -> None:
    stateful(checkpoint)
    newest = checkpoint / "offsets" / "3"
    newest.write_text(newest.read_text().replace('"conf":{', '"conf":{"a_key_of_theirs":"1",'))
    document = invoke("checkpoint", "show", checkpoint)
    assert document["settings"]["a_key_of_theirs"] == "1"
    assert underscored(document) == ["a_key_of_theirs"]


def test_of_an_error(tmp_path: Path) -> None:
    assert underscored(invoke("checkpoint", "show", tmp_path)) == []


def test_of_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("There", "org.There", "one thing", False, ("member/2",))
    diagnosis = Diagnosis([Finding("Java", "25", True)], [verdict])
    monkeypatch.setattr("penstock.api.doctor.diagnose", lambda: diagnosis)
    document = invoke("doctor")
    assert document["internals"][0]["className"] == "org.There"
    assert underscored(document) == []


def test_of_a_crash_test(capsys: pytest.CaptureFixture[str]) -> None:
    trial = Trial(PLACE, (1,), ((2,),))
    JsonOutput().crash_report(CrashReport([trial], [FaultPoint.BEFORE_PURGE], 2, [PLACE]))
    assert underscored(json.loads(capsys.readouterr().out)) == []


def test_of_a_bisection(capsys: pytest.CaptureFixture[str]) -> None:
    trials = (BisectTrial(1, (RANGE,), "an error"),)
    JsonOutput().bisection(
        BisectReport("a checkpoint", 1, trials, (RANGE,), "an error", "all of it")
    )
    assert underscored(json.loads(capsys.readouterr().out)) == []


def test_of_a_quarantine(capsys: pytest.CaptureFixture[str]) -> None:
    part = LeftOutPart("0", "a source", "an error", "file", file="a_file", bytes=1)
    record = QuarantineRecord(1, 2, "/a_path", (part,))
    batch = QuarantinedBatch(1, True, record)
    JsonOutput().quarantine(
        QuarantineReport("a checkpoint", "id", (batch,), (BatchFailure(1, 2, 3, "an error"),))
    )
    assert underscored(json.loads(capsys.readouterr().out)) == []
    JsonOutput().retry(RetryReport((RetriedPart(1, 0, part, 2, None),), "a_directory"))
    assert underscored(json.loads(capsys.readouterr().out)) == []


def test_of_what_the_live_page_and_health_show() -> None:
    failed = snapshot(condition="failed", error="an error")
    assert underscored(failed.to_dict()) == []
    health = check_health([failed])
    assert not health.is_healthy
    assert underscored(health.to_dict()) == []


def test_of_the_lock(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path, "a query"):
        assert underscored(json.loads((tmp_path / ".penstock" / "lock").read_text())) == []
