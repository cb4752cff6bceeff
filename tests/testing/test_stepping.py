"""Stepping a query on Spark: one trigger per call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import DataStreamWriter, StreamingQuery, StreamingQueryException, write_stream
from penstock.engine.faults import FaultInjector, FaultPoint
from penstock.errors import ExecutionError
from penstock.testing import CollectSink, ManualClock, MemoryStream
from tests.streams import PATIENCE, log_entries


class Held(FaultInjector):
    """Blocks the query's thread at a fault point until the test releases it."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point
        self.is_there, self.may_go = threading.Event(), threading.Event()

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self._point:
            self.is_there.set()
            assert self.may_go.wait(PATIENCE)


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


@pytest.fixture
def numbers(session: SparkSession) -> MemoryStream:
    return MemoryStream("n long", session)


@pytest.fixture
def writer(numbers: MemoryStream, checkpoint: Path) -> DataStreamWriter:
    made = write_stream(numbers.to_df()).sink(CollectSink()).stepped(ManualClock())
    return made.option("checkpointLocation", str(checkpoint))


def test_each_step_runs_one_trigger(
    numbers: MemoryStream, writer: DataStreamWriter, checkpoint: Path
) -> None:
    query = writer.start()
    numbers.add_data([1])
    assert log_entries(checkpoint, "offsets") == []
    for batch_id in range(3):
        progress = query.step()
        assert progress is not None
        assert (progress.batchId, progress.numInputRows) == (batch_id, 1)
        assert log_entries(checkpoint, "commits") == list(range(batch_id + 1))
        assert query.step() is None
        numbers.add_data([batch_id])
    query.stop()
    assert query.step() is None


def test_a_step_without_data_returns_at_once(session: SparkSession, checkpoint: Path) -> None:
    patient = session.newSession()
    patient.conf.set("spark.sql.streaming.pollingDelay", "10m")
    empty = write_stream(MemoryStream("n long", patient).to_df()).format("noop").stepped()
    query = empty.start(checkpointLocation=str(checkpoint))
    assert [query.step(timeout=PATIENCE) for _ in range(3)] == [None] * 3
    query.stop()


def test_a_writer_can_start_its_query_again(
    numbers: MemoryStream, writer: DataStreamWriter
) -> None:
    for batch_id in range(2):
        query = writer.start()
        numbers.add_data([batch_id])
        progress = query.step()
        assert progress is not None
        assert progress.batchId == batch_id
        query.stop()


def test_batches_without_data_are_steps_too(session: SparkSession) -> None:
    events = MemoryStream("t long", session)
    timed = events.to_df().select(F.timestamp_seconds("t").alias("at"))
    counts = timed.withWatermark("at", "0 seconds").groupBy(F.window("at", "1 second")).count()
    sink = CollectSink()
    query = write_stream(counts).sink(sink).stepped(ManualClock()).start()
    events.add_data([1, 5])
    progress = query.run()
    query.stop()
    assert [p.numInputRows for p in progress] == [2, 0]
    assert [len(rows) for rows in sink.batches.values()] == [0, 1]


def test_run_with_a_number_of_batches_or_a_condition(
    numbers: MemoryStream, writer: DataStreamWriter
) -> None:
    numbers._rows_per_batch = 1
    numbers.add_data(range(6))
    query = writer.start()
    assert [p.batchId for p in query.run(batches=2)] == [0, 1]
    assert query.run(batches=0) == []

    def is_at_batch_3(query: StreamingQuery) -> bool:
        return query.lastProgress is not None and query.lastProgress.batchId == 3

    assert [p.batchId for p in query.run(until=is_at_batch_3)] == [2, 3]
    query.stop_after(batches=1)
    assert [p.batchId for p in query.run(batches=5)] == [4]
    assert not query.isActive
    query = writer.start()
    with pytest.raises(TimeoutError, match="not finished after 3 triggers, 1 of which ran a batch"):
        query.run(batches=5, max_triggers=3)
    query.stop()


def test_a_step_in_which_the_query_fails_raises_and_so_does_every_later_one(
    numbers: MemoryStream, writer: DataStreamWriter
) -> None:
    def fail(df: DataFrame, batch_id: int) -> None:
        raise ZeroDivisionError(f"in batch {batch_id}")

    query = writer.foreachBatch(fail).start()
    assert query.step() is None
    numbers.add_data([1])
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="in batch 0") as caught:
            query.step()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(StreamingQueryException):
        query.run()


def test_a_step_of_a_query_that_fails_before_its_first_trigger(writer: DataStreamWriter) -> None:
    class Fail(FaultInjector):
        def reach(self, point: FaultPoint, batch_id: int) -> None:
            if point is FaultPoint.AFTER_SOURCES:
                raise ZeroDivisionError("no sources")

    query = writer.inject_faults(Fail()).start()
    with pytest.raises(StreamingQueryException, match="no sources"):
        query.step(timeout=PATIENCE)


@pytest.mark.parametrize("graceful", [False, True])
def test_stopping_during_a_step(
    numbers: MemoryStream, writer: DataStreamWriter, checkpoint: Path, graceful: bool
) -> None:
    held = Held(FaultPoint.BEFORE_SINK if graceful else FaultPoint.AFTER_LATEST_OFFSET)
    query = writer.inject_faults(held).start()
    numbers.add_data([1])
    stepped: list[object] = []
    stepper = in_background(lambda: stepped.append(query.step()))
    assert held.is_there.wait(PATIENCE)
    stopper = in_background(lambda: query.stop(graceful=graceful))
    held.may_go.set()
    for thread in (stepper, stopper):
        thread.join(PATIENCE)
    assert not query.isActive
    assert query.exception() is None
    assert len(stepped) == 1
    if graceful:
        assert stepped != [None]
        assert log_entries(checkpoint, "commits") == [0]


def test_a_step_that_times_out(
    numbers: MemoryStream, writer: DataStreamWriter, checkpoint: Path
) -> None:
    held = Held(FaultPoint.BEFORE_SINK)
    query = writer.inject_faults(held).start()
    numbers.add_data([1])
    with pytest.raises(TimeoutError, match=r"did not finish within 0\.05 s"):
        query.step(timeout=0.05)
    held.may_go.set()
    query.step()  # the next trigger: the one that timed out has finished meanwhile
    query.stop()
    assert log_entries(checkpoint, "commits") == [0]


def test_step_of_a_query_with_another_trigger_raises(numbers: MemoryStream) -> None:
    query = write_stream(numbers.to_df()).sink(CollectSink()).start()
    with pytest.raises(ExecutionError, match="requires a ManualTrigger"):
        query.step()
    query.stop()
