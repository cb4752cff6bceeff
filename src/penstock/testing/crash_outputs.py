"""Compares the output after each crash of `penstock crashtest` with that without a crash."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.api.quiet_session import quiet_session
from penstock.errors import ExecutionError
from penstock.testing.crash_report import CrashReport, Trial
from penstock.testing.crash_script import CrashResults
from penstock.testing.crashing import Workspace


def compare_outputs(results: CrashResults, read_output: Callable[[Workspace], Any]) -> CrashReport:
    """Read every output and compare it with that of the run without a crash.

    Uses the active Spark session; if there is none, starts one and stops it again.
    """
    running = SparkSession.getActiveSession()
    spark = running or quiet_session(
        "penstock crashtest", results.folder / "reader.log", short_lived=True
    )
    outputs: dict[Path, list[tuple[Any, ...]]] = {}
    try:
        expected = _rows(read_output, spark, results.reference)
        for killed in results.killed:
            if killed.error is None and killed.restarted_in not in outputs:
                outputs[killed.restarted_in] = _rows(read_output, spark, killed.restarted_in)
    finally:
        if running is None:
            spark.stop()
    trials = [
        Trial(killed.crashed_at, killed.delivered_again, error=killed.error, shared=killed.shared)
        if killed.error is not None
        else Trial.of(
            killed.crashed_at,
            killed.delivered_again,
            expected,
            outputs[killed.restarted_in],
            shared=killed.shared,
        )
        for killed in results.killed
    ]
    return CrashReport(trials, results.not_passed, len(expected), results.not_tried)


def files_reader(format: str) -> Callable[[Workspace], Any]:
    """A function that reads the output with Spark in this format; no rows if it is missing."""

    def read_output(workspace: Workspace) -> Any:
        if not Path(workspace.output).exists():
            return []
        return workspace.spark.read.format(format).load(workspace.output)

    return read_output


def reader_from(file: Path) -> Callable[[Workspace], Any]:
    """The function `read_output(workspace)` of a Python file.

    Raises ExecutionError if the file does not define it.
    """
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
