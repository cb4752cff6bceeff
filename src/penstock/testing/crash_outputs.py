"""Compares the output after each crash of `penstock crashtest` with that without a crash."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.api.quiet_session import quiet_session
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.errors import ExecutionError
from penstock.testing.brief import in_brief
from penstock.testing.crash_folder import READER_LOG
from penstock.testing.crash_report import CrashReport, Trial
from penstock.testing.crash_script import CrashResults
from penstock.testing.crashing import Workspace

ReadWorkspace = Callable[[Workspace], Any]
Rows = list[tuple[Any, ...]]
_UNCRASHED = "of the run without a crash"


class Outputs:
    """Reads the outputs of a crash test, each of them once.

    Uses the active Spark session; if there is none, starts one with `options` for `check`, and one
    for `compare`. None of them runs while the crashes are tried: what it holds, such as an embedded
    database, may be needed by the script.
    """

    def __init__(
        self, folder: Path, read_output: ReadWorkspace, options: SparkOptions = NO_OPTIONS
    ) -> None:
        self._folder = folder
        self._read_output = read_output
        self._options = options
        self._rows: dict[Path, Rows] = {}
        self._started: SparkSession | None = None

    def check(self, reference: Path) -> None:
        """Read the output of the run without a crash.

        Raises ExecutionError if it has no rows, since a comparison with it would find nothing.
        """
        with self._without_session_after():
            rows = self._of(reference, _UNCRASHED)
        if not rows:
            raise ExecutionError(
                f"The output {_UNCRASHED} has no rows, so there is nothing to compare. Pass "
                "{output} to the script, which has to write there, or read what it writes with "
                "--reader."
            )

    def compare(self, results: CrashResults) -> CrashReport:
        """The report of the crashes. Raises ExecutionError if an output cannot be read."""
        with self._without_session_after():
            return self._report(results)

    def _report(self, results: CrashResults) -> CrashReport:
        expected = self._of(results.reference, _UNCRASHED)
        trials = [
            Trial(
                killed.crashed_at, killed.delivered_again, error=killed.error, shared=killed.shared
            )
            if killed.error is not None
            else Trial.of(
                killed.crashed_at,
                killed.delivered_again,
                expected,
                self._of(killed.restarted_in, f"after the crash at {killed.crashed_at}"),
                shared=killed.shared,
            )
            for killed in results.killed
        ]
        return CrashReport(trials, results.not_passed, len(expected), results.not_tried)

    def _of(self, folder: Path, which: str) -> Rows:
        if folder not in self._rows:
            with _reading(f"The output {which} could not be read with this --format or --reader"):
                output = self._read_output(Workspace(self._session(), folder))
                rows = output.collect() if isinstance(output, DataFrame) else output
                self._rows[folder] = [
                    tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in rows
                ]
        return self._rows[folder]

    @contextlib.contextmanager
    def _without_session_after(self) -> Iterator[None]:
        """Stop the session at the end of the block, if it was started here."""
        try:
            yield
        finally:
            if self._started is not None:
                self._started.stop()
                self._started = None

    def _session(self) -> SparkSession:
        running = self._started or SparkSession.getActiveSession()
        if running is None:
            log = self._folder / READER_LOG
            with self._options.in_environment():  # to read the output, packages may be needed
                running = quiet_session("penstock crashtest", log, short_lived=True)
            self._started = running
        return running


def files_reader(format: str) -> ReadWorkspace:
    """A function that reads the output with Spark in this format; no rows if it is missing."""

    def read_output(workspace: Workspace) -> Any:
        if not Path(workspace.output).exists():
            return []
        return workspace.spark.read.format(format).load(workspace.output)

    return read_output


def reader_from(file: Path) -> ReadWorkspace:
    """The function `read_output(workspace)` of a Python file.

    Raises ExecutionError if the file fails or does not define it.
    """
    with _reading(f"{file} failed"):
        found = runpy.run_path(str(file)).get("read_output")
    if not callable(found):
        raise ExecutionError(f"{file} defines no function read_output(workspace)")
    return found  # type: ignore[no-any-return]


@contextlib.contextmanager
def _reading(failed: str) -> Iterator[None]:
    """Convert every error in the block to an ExecutionError that begins with `failed`."""
    try:
        yield
    except (Exception, SystemExit) as exc:
        raise ExecutionError(f"{failed}: {in_brief(exc)}") from exc
