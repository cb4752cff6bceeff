"""Helpers for tests on real Spark: waiting, controllable sources, checkpoint access."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock import PythonSource, StreamingQuery
from penstock.api.manager import streams
from penstock.engine.clock import Clock
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.engine.read_limit import ReadLimit, ReadMaxRows
from penstock.spark.jvm.gateway import Jvm

PATIENCE = 60.0
"""The timeout of waits, in seconds."""


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A new session with its own settings and views. Its queries are stopped after the test."""
    own = spark.newSession()
    yield own
    for query in streams(own).active:
        query.stop()


def progress_fields(progress: Any) -> dict[str, Any]:
    """The JSON fields of a progress record of either engine; a plain dict in PySpark 3.5."""
    fields: dict[str, Any] = progress if type(progress) is dict else json.loads(progress.json)
    return fields


def class_beside(spark: SparkSession, known: str, name: str) -> str:
    """The full name of a class in the package of a known internal class of Spark."""
    package = Jvm.of(spark).line.classes[known].name.rpartition(".")[0]
    return f"{package}.{name}"


def eventually(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait until a condition holds; fail after the timeout."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(f"{what} did not come true in {PATIENCE:g} seconds")


def eventually_of(query: StreamingQuery, condition: Callable[[], object], what: str) -> None:
    """The same for a condition that a query brings about; raises the query's exception."""

    def holds_or_is_hopeless() -> object:
        if (error := query.exception()) is not None:
            raise error
        return condition() or not query.isActive

    eventually(holds_or_is_hopeless, what)
    assert condition(), f"the query has ended and {what} did not come true"


def has_committed(query: StreamingQuery, batch_id: int) -> None:
    """Wait until a query has reported a batch."""

    def reported() -> bool:
        progress = query.lastProgress
        return progress is not None and progress.batchId >= batch_id

    eventually_of(query, reported, f"batch {batch_id}")


class Numbers(PythonSource):
    """The numbers 0, 1, 2, ... up to the count that the test has released."""

    def __init__(self, available: int = 0, at_most: int | None = None) -> None:
        self.available = available
        self.at_most = at_most
        self.committed: list[Any] = []
        self.asked_for: list[tuple[Any, Any]] = []
        self.is_stopped = False

    def schema(self) -> str:
        return "n long"

    def initial_offset(self) -> Any:
        return 0

    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        if isinstance(limit, ReadMaxRows):
            return min(start + limit.max_rows, self.available)
        return self.available

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        self.asked_for.append((start, end))
        return spark.range(start, end).withColumnRenamed("id", "n")

    def read_limit(self) -> ReadLimit | None:
        return None if self.at_most is None else ReadMaxRows(self.at_most)

    def report_latest_offset(self) -> Any:
        return self.available

    def commit(self, end: Any) -> None:
        self.committed.append(end)

    def stop(self) -> None:
        self.is_stopped = True


class StandingNumbers(Numbers):
    """Numbers that support Trigger.AvailableNow."""

    _until: int | None = None

    def prepare_for_trigger_available_now(self) -> None:
        self._until = self.available

    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        latest = super().latest_offset(start, limit)
        return latest if self._until is None else min(latest, self._until)


class LineFiles:
    """A directory of small text files for a file source, ordered by modification time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._count = 0
        directory.mkdir(parents=True, exist_ok=True)

    def add(self, *lines: str) -> None:
        """Add one file."""
        put_file(self.directory, f"{self._count:04d}.txt", "\n".join(lines), self._count)
        self._count += 1
        self.lines += lines

    def stream(self, spark: SparkSession, at_most: int = 1) -> DataFrame:
        """The lines as a stream, with at most `at_most` files per batch."""
        return spark.readStream.option("maxFilesPerTrigger", at_most).text(str(self.directory))


def put_file(directory: Path, name: str, text: str, order: int) -> None:
    """Create a file atomically, with a modification time according to `order`."""
    hidden = directory / f".{name}"
    hidden.write_text(text)
    os.utime(hidden, (1_000_000_000 + order, 1_000_000_000 + order))
    hidden.rename(directory / name)


def log_entries(checkpoint: Path, log: str) -> list[int]:
    """The batch ids in `offsets` or `commits`."""
    directory = checkpoint / log
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    return sorted(int(name) for name in names if name.isdigit())


def logged_offsets(checkpoint: Path, batch_id: int) -> list[Any]:
    """The offsets of the sources in an entry of the offset log."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_bytes().decode().split("\n")[2:]
    return [None if line == "-" else json.loads(line) for line in lines]


def query_id_of(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def column(rows: DataFrame, name: str | None = None) -> list[Any]:
    """A column's values, sorted."""
    return sorted(row[name or 0] for row in rows.collect())


def run_available(df: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    """Run a query over all available data, with a foreachBatch function."""
    writer = penstock.write_stream(df).foreachBatch(sink)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


class Strike(FaultInjector):
    """Raises StruckError at one fault point of one batch only."""

    def __init__(self, point: FaultPoint, batch_id: int) -> None:
        self._where = point, batch_id

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if (point, batch_id) == self._where:
            raise StruckError(f"{point.value} of batch {batch_id}")


class StruckError(Exception):
    """Raised by `Strike`."""


def write_struck(
    writer: penstock.DataStreamWriter, point: FaultPoint, batch_id: int
) -> penstock.DataStreamWriter:
    """A writer whose query fails at a fault point of a batch."""
    writer._faults = Strike(point, batch_id)
    return writer


class HeldClock(Clock):
    """A clock that does not advance: a wait ends only when woken or released by the test."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self.over = threading.Event()

    def time_millis(self) -> int:
        return 0

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        self.waiting.set()
        eventually(lambda: wake.is_set() or self.over.is_set(), "the end of the wait")
        return 0
