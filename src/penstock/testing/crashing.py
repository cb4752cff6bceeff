"""Crashes a pipeline at every fault point, inside this process, and compares its output.

A crash here ends the query, not the process, so global variables of the pipeline survive it.
`penstock crashtest` kills processes instead.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.api.install import install, is_installed, uninstall
from penstock.api.process import PROCESS
from penstock.api.query import StreamingQuery
from penstock.api.writer import DataStreamWriter
from penstock.engine.causes import with_causes
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.engine.read_limit import ReadLimit
from penstock.errors import ExecutionError
from penstock.testing.brief import in_brief
from penstock.testing.crash_faults import (
    STOP_POINTS,
    BatchPoint,
    PointRecorder,
    SimulatedCrash,
    choose_crash_points,
    crashes_not_logged,
    delivered_again,
    not_crashed,
)
from penstock.testing.crash_report import CrashReport, Trial
from penstock.testing.memory_stream import MemoryStream

_CHECKPOINT_OPTION = "checkpointlocation"


@dataclass(frozen=True)
class Workspace:
    """The environment of one trial of a crash test.

    It is the same for the crashed run and its restart, and new for each trial. `spark` is the
    session, `folder` a new directory and `stream` the input, if `crash_test` was given rows.
    """

    spark: SparkSession
    folder: Path
    stream: MemoryStream | None = None

    @property
    def name(self) -> str:
        """A name that is unique to the trial, for instance for a table."""
        return self.folder.name

    @property
    def checkpoint(self) -> str:
        """The path for the checkpoint; it does not exist at first."""
        return str(self.folder / "checkpoint")

    @property
    def output(self) -> str:
        """The path for the output; it does not exist at first."""
        return str(self.folder / "output")

    @property
    def input(self) -> DataFrame:
        """The input rows of the test as a streaming DataFrame.

        Raises ExecutionError if `crash_test` was not given rows.
        """
        if self.stream is None:
            raise ExecutionError(
                "workspace.input is not available: give crash_test the rows of each batch as input"
            )
        return self.stream.to_df()


Pipeline = Callable[[Workspace], DataStreamWriter | StreamingQuery | None]
"""Creates the query under test. Called for each start; returns a writer, which is then started,
or a started query, or None if the query has already processed its input."""

ReadOutput = Callable[[Workspace], DataFrame | Iterable[Any]]
"""Reads the output of a trial, as a DataFrame or as rows."""

Input = Sequence[Sequence[Any]] | Callable[[Workspace], object]
"""The rows of each batch, or a function that creates the input in a workspace."""


def crash_test(
    pipeline: Pipeline,
    input: Input | None = None,
    *,
    read_output: ReadOutput,
    schema: StructType | str | None = None,
    spark: SparkSession | None = None,
    points: Iterable[FaultPoint | str] | None = None,
    every_batch: bool = False,
) -> CrashReport:
    """Crash a pipeline at each fault point, restart it, and compare its output.

    The pipeline is first run without a crash, for the expected output; then, in a new workspace
    for each fault point, it is crashed there and restarted. Returns the report of all crashes.

    `pipeline` is called with a Workspace for each start and returns the writer or the query to
    test. `read_output` is called with the Workspace and returns the output as a DataFrame or rows.
    `input` is a list with the rows of each batch, which have the columns of `schema` and are
    available as `workspace.input`; or a function that is called with each new workspace to create
    the input in it; or None if the pipeline has its own input. `spark` is the session, by default
    the active one. `points` are the fault points, by default all; each is tried once, in batch 1
    if it is reached there, or with `every_batch` in every batch.

    Raises ExecutionError if the run without a crash runs no batch on Penstock, does not reach one
    of the `points` or leaves no rows, and ValueError if `input` has rows but `schema` is missing.

        def pipeline(workspace):
            return write_stream(workspace.input).foreachBatch(write_somewhere)

        report = crash_test(
            pipeline, [[("a", 1)], [("b", 2)]], schema="k string, v int", read_output=read_all
        )
        report.check()
    """
    wanted = None if points is None else [FaultPoint(point) for point in points]
    session = spark or SparkSession.active()
    with tempfile.TemporaryDirectory(prefix="penstock-crash-") as folder:
        rig = _Rig(pipeline, input, read_output, schema, session, Path(folder))
        with crashes_not_logged(), _installed():
            return _test(rig, wanted, every_batch=every_batch)


def _test(rig: _Rig, points: Sequence[FaultPoint] | None, *, every_batch: bool) -> CrashReport:
    after_the_end = [point.value for point in points or () if point in STOP_POINTS]
    if after_the_end:
        raise ExecutionError(
            f"crash_test cannot crash at {', '.join(after_the_end)}: the query has ended there, so "
            "only the kill of the process is a crash. Use penstock crashtest."
        )
    workspace = rig.new_workspace("uncrashed")
    clean = PointRecorder()
    rig.run(workspace, clean)
    reached = [one for one in clean.seen if one.point not in STOP_POINTS]
    crash_points = choose_crash_points(reached, points, every_batch=every_batch)
    if not any(one.point is FaultPoint.AFTER_COMMIT_LOG for one in reached):
        raise ExecutionError(
            "the pipeline ran no batch on Penstock, so there is nothing to crash. Check that its "
            "query reads the input and is started with write_stream or df.writeStream."
        )
    missed = [p for p in not_crashed(crash_points, points) if p not in STOP_POINTS]
    expected = rig.read(workspace)
    if not expected:
        raise ExecutionError(
            "read_output returned no rows after the run without a crash, so there is nothing to "
            "compare. Check that it reads what the pipeline writes, and that there is input."
        )
    trials = [_try(rig, crash_point, expected) for crash_point in crash_points]
    return CrashReport(trials, missed, len(expected))


def _try(rig: _Rig, crash_point: BatchPoint, expected: Sequence[Any]) -> Trial:
    workspace = rig.new_workspace(str(crash_point).removesuffix(":-1").replace(":", "_"))
    first, second = PointRecorder(crash_point), PointRecorder()
    if not rig.crashes(workspace, first):
        return Trial(crash_point, error="this run did not reach the fault point again")
    try:
        rig.run(workspace, second)
        actual = rig.read(workspace)
    except Exception as exc:
        return Trial(crash_point, delivered_again(first.seen, second.seen), error=in_brief(exc))
    return Trial.of(crash_point, delivered_again(first.seen, second.seen), expected, actual)


@dataclass(frozen=True)
class _Rig:
    """The arguments of a crash test, and the methods that run its pipeline in a workspace."""

    pipeline: Pipeline
    input: Input | None
    read_output: ReadOutput
    schema: StructType | str | None
    spark: SparkSession
    folder: Path

    def new_workspace(self, name: str) -> Workspace:
        folder = self.folder / name
        folder.mkdir()
        if self.input is None:
            return Workspace(self.spark, folder)
        if callable(self.input):
            workspace = Workspace(self.spark, folder)
            self.input(workspace)
            return workspace
        if self.schema is None:
            raise ValueError("crash_test needs the argument schema for the rows of its input")
        stream = _BatchByBatch(self.schema, self.spark)
        for rows in self.input:
            stream.add_data(rows)
        return Workspace(self.spark, folder, stream)

    def run(self, workspace: Workspace, faults: FaultInjector) -> None:
        """Run the pipeline until all its input is processed. Propagates its failure."""
        with PROCESS.inject_faults(faults):
            made = self.pipeline(workspace)
            if isinstance(made, DataStreamWriter):
                made = _start(made, workspace)
        if made is None:
            return
        if not isinstance(made, StreamingQuery):
            raise ExecutionError(
                f"the pipeline must return a writer or a query of Penstock, not {made!r}"
            )
        try:
            made.processAllAvailable()
        finally:
            made.stop()

    def crashes(self, workspace: Workspace, faults: FaultInjector) -> bool:
        """Run the pipeline; returns whether a crash of `faults` ended it."""
        try:
            self.run(workspace, faults)
        except BaseException as exc:
            if _is_crash(exc):
                return True
            raise
        return False

    def read(self, workspace: Workspace) -> list[Any]:
        output = self.read_output(workspace)
        rows = output.collect() if isinstance(output, DataFrame) else output
        return [tuple(row) if isinstance(row, (tuple, list)) else (row,) for row in rows]


def _start(writer: DataStreamWriter, workspace: Workspace) -> StreamingQuery:
    if _CHECKPOINT_OPTION not in map(str.lower, writer._output.options):
        writer.option("checkpointLocation", workspace.checkpoint)
    return writer.trigger(availableNow=True).start()


class _BatchByBatch(MemoryStream):
    """A memory stream whose batches are the rows of one `add_data` call each."""

    def __init__(self, schema: StructType | str, spark: SparkSession) -> None:
        super().__init__(schema, spark)
        self._ends: list[int] = []

    def add_data(self, rows: Iterable[Any]) -> int:
        end = super().add_data(rows)
        self._ends.append(end)
        return end

    def latest_offset(self, start: Any, limit: ReadLimit) -> int:
        return min((end for end in self._ends if end > start), default=int(start))


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Install Penstock in the block, so that `df.writeStream` in a pipeline uses it too."""
    before = is_installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def _is_crash(error: BaseException) -> bool:
    return any(isinstance(cause, SimulatedCrash) for cause in with_causes(error))
