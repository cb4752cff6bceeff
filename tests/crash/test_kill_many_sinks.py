"""Processes with many sinks, killed with SIGKILL at the points of each sink, on Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash import many_sinks

PROGRAM = Path(many_sinks.__file__)
FILES = 3
EXPECTED = {str(batch): {"0": batch + 1, "1": batch + 1} for batch in range(FILES)}


def prepare(work: Path) -> None:
    (work / "in").mkdir(parents=True)
    for number in range(FILES):
        rows = [{"n": 2 * number}, {"n": 2 * number + 1}]
        (work / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


def run(work: Path, kill_at: str, *arguments: str) -> int:
    """Run the program as a process that is killed at POINT:BATCH[:NTH]; returns its exit code."""
    child = "penstock.testing.crash_child"
    command = [sys.executable, "-m", child, str(work / "reached"), kill_at, "{}"]
    command += [str(PROGRAM), str(work)]
    with (work / "child.log").open("ab") as log:
        return subprocess.run(
            [*command, *arguments], stdout=log, stderr=log, timeout=300
        ).returncode


def calls_of_log(work: Path) -> Counter[int]:
    lines = (work / "log").read_text().splitlines() if (work / "log").exists() else []
    for batch_id, counts in map(json.loads, lines):
        assert counts == EXPECTED[str(batch_id)]
    return Counter(batch_id for batch_id, _ in map(json.loads, lines))


def check(spark: SparkSession, work: Path, kill_at: str, *arguments: str) -> Counter[int]:
    """Kill once, restart, compare the table; returns how often each batch came to the log.

    The restart is in this process, whose JVM is warm and knows nothing of the killed one.
    """
    prepare(work)
    assert run(work, kill_at, *arguments) == -signal.SIGKILL, (work / "child.log").read_text()
    many_sinks.run(spark.newSession(), work, parallel="parallel" in arguments)
    table = {path.name: json.loads(path.read_text()) for path in (work / "table").iterdir()}
    assert table == EXPECTED
    commits = {p.name for p in (work / "checkpoint/commits").iterdir() if p.name.isdigit()}
    assert commits == set(EXPECTED)
    return calls_of_log(work)


ONCE = Counter(range(FILES))


@pytest.mark.core
def test_a_kill_in_the_second_sink_does_not_repeat_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert check(spark, tmp_path / "work", "before_sink_entry:1:2") == ONCE


@pytest.mark.extended
@pytest.mark.parametrize(
    "kill_at",
    [
        "before_sink_names:-1",
        "after_sink_names:-1",
        "after_computing:1",
        "before_named_sink:1",
        "before_named_sink:1:2",
        "after_sink_entry:1",
        "after_sink_entry:1:2",
        "after_sink:1",
        "before_commit_log:1",
        "after_commit_log:1",
    ],
)
def test_a_kill_anywhere_else_repeats_nothing(
    spark: SparkSession, tmp_path: Path, kill_at: str
) -> None:
    assert check(spark, tmp_path / "work", kill_at) == ONCE


@pytest.mark.extended
def test_a_kill_between_a_sink_and_its_entry_repeats_that_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert check(spark, tmp_path / "work", "before_sink_entry:1") == ONCE + Counter([1])


@pytest.mark.extended
@pytest.mark.parametrize("kill_at", ["after_sink_entry:1", "after_sink_entry:1:2"])
def test_a_kill_beside_a_parallel_sink(spark: SparkSession, tmp_path: Path, kill_at: str) -> None:
    calls = check(spark, tmp_path / "work", kill_at, "parallel")
    # The log may have been in the middle of the batch when the other sink was done.
    assert calls in (ONCE, ONCE + Counter([1]))
