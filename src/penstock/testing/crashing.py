"""Crash a pipeline at every point of the protocol, inside this process, and see what its sink has.

A crash here ends the query, not the process: what the pipeline keeps in global variables
survives it. `penstock crashtest` kills processes for real.
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
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.engine.read_limit import ReadLimit
from penstock.errors import ExecutionError
from penstock.testing.brief import in_brief
from penstock.testing.crash_faults import (
    STOP_POINTS,
    Passage,
    Passages,
    SimulatedCrash,
    choose_strikes,
    crashes_not_logged,
    delivered_again,
)
from penstock.testing.crash_report import CrashReport, Trial
from penstock.testing.memory_stream import MemoryStream

_CHECKPOINT_OPTION = "checkpointlocation"


@dataclass(frozen=True)
class Workspace:
    """Where one trial of a pipeline takes place: the same in its restart, new in the next trial.

    `checkpoint` and `output` are paths in `folder` for the pipeline to use; neither exists at
    first. `name` is a word unique to the trial, for a table's name for instance.
    """

    spark: SparkSession
    folder: Path
    stream: MemoryStream | None = None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    @property
    def output(self) -> str:
        return str(self.folder / "output")

    @property
    def input(self) -> DataFrame:
        """The rows of the test, as a stream."""
        if self.stream is None:
            raise ExecutionError("there is no input: crash_test was not given the rows of any")
        return self.stream.to_df()


Pipeline = Callable[[Workspace], DataStreamWriter | StreamingQuery | None]
"""Makes the query under test: a writer, which is then started; a query that was started; or None
if it has run to its end already. It is called anew for each start."""

ReadOutput = Callable[[Workspace], DataFrame | Iterable[Any]]
"""What the sink has in the end: a DataFrame or rows."""

Input = Sequence[Sequence[Any]] | Callable[[Workspace], object]
"""The rows of each batch, or a function that puts input into a workspace."""


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
    """Run a pipeline uncrashed; then, in a new workspace for each fault point, crash it there,
    start it again, and compare what the sink has with what the uncrashed run left.

    `input` has the rows of each batch, of the columns in `schema`, and comes as
    `workspace.input`; or it is a function that is called with each new workspace to fill it, for a
    pipeline that reads files there; or None where the pipeline brings its own.
    Of `points` (default: all), each is struck once, in batch 1 if it comes by there; with
    `every_batch`, in every batch.
    """
    wanted = None if points is None else [FaultPoint(point) for point in points]
    session = spark or SparkSession.active()
    with tempfile.TemporaryDirectory(prefix="penstock-crash-") as folder:
        rig = _Rig(pipeline, input, read_output, schema, session, Path(folder))
        with crashes_not_logged(), _installed():
            return _test(rig, wanted, every_batch=every_batch)


def _test(rig: _Rig, points: Sequence[FaultPoint] | None, *, every_batch: bool) -> CrashReport:
    workspace = rig.new_workspace("uncrashed")
    clean = Passages()
    rig.run(workspace, clean)
    expected = rig.read(workspace)
    passed = [passage for passage in clean.seen if passage.point not in STOP_POINTS]
    strikes = choose_strikes(passed, points, every_batch=every_batch)
    if not any(passage.point is FaultPoint.AFTER_COMMIT_LOG for passage in passed):
        raise ExecutionError(
            "the pipeline ran no batch, so there is nothing to crash; does its query read the "
            "input, and run on Penstock?"
        )
    trials = [_try(rig, strike, expected) for strike in strikes]
    struck = {strike.point for strike in strikes} | STOP_POINTS
    asked_for = FaultPoint if points is None else points
    return CrashReport(trials, [p for p in asked_for if p not in struck], len(expected))


def _try(rig: _Rig, strike: Passage, expected: Sequence[Any]) -> Trial:
    batch = "" if strike.batch_id < 0 else f"_{strike.batch_id}"
    workspace = rig.new_workspace(f"{strike.point.value}{batch}")
    first, second = Passages(strike), Passages()
    if not rig.crashes(workspace, first):
        return Trial(strike, error="it ran otherwise than before: it did not come by here again")
    try:
        rig.run(workspace, second)
        actual = rig.read(workspace)
    except Exception as exc:
        return Trial(strike, delivered_again(first.seen, second.seen), error=in_brief(exc))
    return Trial.of(strike, delivered_again(first.seen, second.seen), expected, actual)


@dataclass(frozen=True)
class _Rig:
    """A pipeline with all that it takes to run it in a workspace."""

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
            raise ValueError("crash_test needs the schema of the rows in its input")
        stream = _BatchByBatch(self.schema, self.spark)
        for rows in self.input:
            stream.add_data(rows)
        return Workspace(self.spark, folder, stream)

    def run(self, workspace: Workspace, faults: FaultInjector) -> None:
        """Run the pipeline until all its input is processed. Raises what it dies of."""
        with PROCESS.inject_faults(faults):
            made = self.pipeline(workspace)
            if isinstance(made, DataStreamWriter):
                made = _start(made, workspace)
        if made is None:
            return
        if not isinstance(made, StreamingQuery):
            raise ExecutionError(f"the pipeline is to return a writer or a query, not {made!r}")
        try:
            made.processAllAvailable()
        finally:
            made.stop()

    def crashes(self, workspace: Workspace, faults: FaultInjector) -> bool:
        """Run the pipeline; whether it was ended by a crash that `faults` brought about."""
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
    if _CHECKPOINT_OPTION not in map(str.lower, writer._options):
        writer.option("checkpointLocation", workspace.checkpoint)
    return writer.trigger(availableNow=True).start()


class _BatchByBatch(MemoryStream):
    """Gives out in each batch what was added by one call, and nothing else."""

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
    """Let `df.writeStream` in a pipeline be Penstock's too."""
    before = is_installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def _is_crash(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, SimulatedCrash):
            return True
        error = error.__cause__ or error.__context__
    return False
