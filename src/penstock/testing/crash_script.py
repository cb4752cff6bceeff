"""Kill a script at every point of the protocol, for real, and see what its sink has."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.api.quiet import quiet_session
from penstock.engine.faults import FaultPoint
from penstock.errors import ExecutionError
from penstock.testing.crash_faults import Passage, choose_strikes, delivered_again
from penstock.testing.crash_report import CrashReport, Trial
from penstock.testing.crashing import Workspace

DEFAULT_ARGUMENTS = ("{checkpoint}", "{output}")
_TAIL = 1500


@dataclass(frozen=True)
class ScriptRun:
    """What a script is run with.

    In each of the arguments `{checkpoint}`, `{output}` and `{work}` stand for the paths of the
    trial. `timeout` is for one run, in seconds. `tell` is told what is done, in a line.
    """

    script: Path
    folder: Path
    arguments: Sequence[str] = DEFAULT_ARGUMENTS
    timeout: float = 300.0
    tell: Callable[[str], None] = field(default=lambda _: None)

    def in_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def run(self, folder: Path, passages: str, kill_at: Passage | None = None) -> int:
        """Run it once in a child process; the exit code, negative for a signal."""
        places = {
            "{checkpoint}": str(folder / "checkpoint"),
            "{output}": str(folder / "output"),
            "{work}": str(folder),
        }
        arguments = [_filled_in(argument, places) for argument in self.arguments]
        at = "-" if kill_at is None else str(kill_at)
        command = [sys.executable, "-m", "penstock.testing.crash_child", str(folder / passages), at]
        with (folder / f"{passages}.log").open("wb") as log:
            child = subprocess.Popen(
                [*command, str(self.script), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return child.wait(self.timeout)
            except subprocess.TimeoutExpired:
                raise ExecutionError(
                    f"{self.script} did not end within {self.timeout:g} s; let its queries run "
                    "with trigger(availableNow=True), and wait for their end"
                ) from None
            finally:
                _kill_group(child)


def crash_test_script(
    run: ScriptRun, points: Sequence[FaultPoint] | None, *, every_batch: bool
) -> tuple[list[KilledRun], list[FaultPoint]]:
    """Run a script unharmed, then kill and rerun it at each point.

    Returns every killed run, to be judged by `judge`, and the points it did not come by.
    """
    clean = run.in_folder("uncrashed")
    run.tell("without a crash ...")
    _require_success(run, clean, "passages", run.run(clean, "passages"))
    passed = _read_passages(clean / "passages")
    strikes = choose_strikes(passed, points, every_batch=every_batch)
    if not any(passage.point is FaultPoint.AFTER_COMMIT_LOG for passage in passed):
        raise ExecutionError(f"{run.script} ran no batch, so there is nothing to crash")
    struck = {strike.point for strike in strikes}
    missed = [p for p in (points or FaultPoint) if p not in struck]
    return [_kill_and_rerun(run, strike) for strike in strikes], missed


@dataclass(frozen=True)
class KilledRun:
    """A script killed and run again; its output is in the folder."""

    strike: Passage
    folder: Path
    delivered_again: tuple[int, ...] = ()
    error: str | None = None


def _kill_and_rerun(run: ScriptRun, strike: Passage) -> KilledRun:
    of_batch = "" if strike.batch_id < 0 else f" of batch {strike.batch_id}"
    run.tell(f"killed at {strike.point.value}{of_batch} ...")
    folder = run.in_folder(str(strike).replace(":", "_"))
    code = run.run(folder, "killed", strike)
    if code != -signal.SIGKILL:
        why = f"was to be killed, but ended with {code}: {_tail(folder / 'killed.log')}"
        return KilledRun(strike, folder, error=why)
    code = run.run(folder, "rerun")
    again = delivered_again(_read_passages(folder / "killed"), _read_passages(folder / "rerun"))
    error = None if code == 0 else f"ended with {code}: {_tail(folder / 'rerun.log')}"
    return KilledRun(strike, folder, again, error)


def judge(
    run: ScriptRun,
    killed_runs: Sequence[KilledRun],
    not_passed: Sequence[FaultPoint],
    read_output: Callable[[Workspace], Any],
) -> CrashReport:
    """Read every output and compare it with the unharmed run's.

    With the session that is there; if there is none, with one that lasts no longer than this.
    """
    running = SparkSession.getActiveSession()
    spark = running or quiet_session(
        "penstock crashtest", run.folder / "reader.log", short_lived=True
    )
    try:
        expected = _rows(read_output, spark, run.folder / "uncrashed")
        trials = [
            Trial(killed.strike, killed.delivered_again, error=killed.error)
            if killed.error is not None
            else Trial.of(
                killed.strike,
                killed.delivered_again,
                expected,
                _rows(read_output, spark, killed.folder),
            )
            for killed in killed_runs
        ]
    finally:
        if running is None:
            spark.stop()
    return CrashReport(trials, not_passed, len(expected))


def files_reader(format: str) -> Callable[[Workspace], Any]:
    """Reads the output as files, or as a table, of that format; nothing if it is not there."""

    def read_output(workspace: Workspace) -> Any:
        if not Path(workspace.output).exists():
            return []
        return workspace.spark.read.format(format).load(workspace.output)

    return read_output


def reader_from(file: Path) -> Callable[[Workspace], Any]:
    """The function `read_output(workspace)` of a Python file."""
    found = runpy.run_path(str(file)).get("read_output")
    if not callable(found):
        raise ExecutionError(f"{file} defines no function read_output(workspace)")
    return found  # type: ignore[no-any-return]


def _rows(
    read_output: Callable[[Workspace], Any], spark: SparkSession, folder: Path
) -> list[tuple[Any, ...]]:
    output = read_output(Workspace(spark, folder))
    rows = output.collect() if isinstance(output, DataFrame) else output
    return [tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in rows]


def _filled_in(argument: str, places: dict[str, str]) -> str:
    for place, path in places.items():
        argument = argument.replace(place, path)
    return argument


def _read_passages(file: Path) -> list[Passage]:
    lines = file.read_text().split() if file.exists() else []
    return [Passage.parse(line) for line in lines]


def _require_success(run: ScriptRun, folder: Path, passages: str, code: int) -> None:
    if code != 0:
        raise ExecutionError(
            f"{run.script} ended with {code} without a crash:\n{_tail(folder / f'{passages}.log')}"
        )


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_TAIL:].strip()


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Let nothing of a run outlive it, its JVM least of all."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
