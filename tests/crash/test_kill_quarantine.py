"""Processes with a quarantine, killed with SIGKILL at its points, on Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.checkpoint import CheckpointDirectory, LocalFiles
from penstock.checkpoint.quarantine_log import QuarantineRecord
from tests.crash.quarantine import FAILED, run
from tests.streams import put_file

PROGRAM = Path(__file__).with_name("quarantine.py")
EXPECTED = {"0": {"0": 4, "1": 4}, "1": {"0": 6, "1": 7}}


def prepare(work: Path) -> None:
    """Two batches of four files each; the second has a bad one."""
    (work / "in").mkdir(parents=True)
    for number in range(8):
        rows = [{"n": 2 * number}, {"n": -1 if number == 6 else 2 * number + 1}]
        if number == 7:
            rows = [{"n": 7}]
        put_file(work / "in", f"{number}.json", "\n".join(map(json.dumps, rows)), number)


def run_as_process(work: Path, kill_at: str = "-") -> int:
    """Run the program until it ends or is killed at POINT:BATCH; returns its exit code."""
    child = "penstock.testing.crash_child"
    command = [sys.executable, "-m", child, str(work / "reached"), kill_at, "{}"]
    with (work / "child.log").open("ab") as log:
        return subprocess.run(
            [*command, str(PROGRAM), str(work)], stdout=log, stderr=log, timeout=300
        ).returncode


def record(work: Path) -> QuarantineRecord | None:
    return CheckpointDirectory(LocalFiles(work / "checkpoint")).quarantine.get(1)


def check(spark: SparkSession, work: Path, kill_at: str) -> None:
    """Kill once, restart until the program does not fail, compare the table and the copies.

    The runs after the kill are in this process, whose JVM is warm and knows none before it.
    """
    prepare(work)
    codes = [] if "failure_entry" in kill_at else [run_as_process(work)]
    codes.append(run_as_process(work, kill_at))
    log = (work / "child.log").read_text
    assert codes[-1] == -signal.SIGKILL, log()
    assert codes[:-1] in ([], [FAILED]), log()
    before = record(work)
    codes = [run(spark.newSession(), work)]
    if codes == [FAILED]:
        assert kill_at.startswith("before_failure_entry")
        codes.append(run(spark.newSession(), work))
    assert codes[-1] == 0, log()
    table = {path.name: json.loads(path.read_text()) for path in (work / "table").iterdir()}
    assert table == EXPECTED
    commits = {p.name for p in (work / "checkpoint/commits").iterdir() if p.name.isdigit()}
    assert commits == set(EXPECTED)
    after = record(work)
    assert after is not None
    assert [Path(part.file or "").name for part in after.parts] == ["6.json"]
    assert before in (None, after)
    [copy] = (work / "aside/_files").rglob("*.json")
    assert json.loads(copy.read_text().splitlines()[1]) == {"n": -1}
    assert not (work / "checkpoint/.penstock/trial").exists()


@pytest.mark.core
def test_a_kill_after_the_decision(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path / "work", "after_quarantine_record:1")


@pytest.mark.extended
@pytest.mark.parametrize(
    "kill_at",
    [
        "before_failure_entry:1",
        "after_failure_entry:1",
        "before_trials:1",
        "before_quarantine_record:1",
        "after_quarantine_copy:1",
        "after_get_batch:1",
        "after_sink:1",
        "before_commit_log:1",
    ],
)
def test_a_kill_anywhere_else(spark: SparkSession, tmp_path: Path, kill_at: str) -> None:
    check(spark, tmp_path / "work", kill_at)
