"""Cron, AfterQuery, WhenBacklog and a trigger of a user on Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock import (
    AfterQuery,
    Cron,
    Schedule,
    StreamingQuery,
    StreamingQueryException,
    Surroundings,
    Trigger,
    TriggerExecutor,
    WhenBacklog,
    write_stream,
)
from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.triggers import BatchRunner
from penstock.errors import UnknownTriggerError
from penstock.testing import ManualClock, MemoryStream
from tests.streams import column

PATIENCE = 60.0
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class Kept:
    """A sink that keeps the numbers of each batch; a test can wait for one."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}
        self._changed = threading.Condition()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        rows = column(df)
        with self._changed:
            self.batches[batch_id] = rows
            self._changed.notify_all()

    def has(self, batch_id: int, *, within: float = PATIENCE) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: batch_id in self.batches, within)

    def wait_for(self, batch_id: int) -> list[int]:
        assert self.has(batch_id)
        return self.batches[batch_id]


@pytest.fixture
def started() -> Iterator[list[StreamingQuery]]:
    """Queries that are stopped at the end of the test."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


@pytest.mark.core
def test_cron_runs_at_its_times_on_the_clock_of_the_query(
    session: SparkSession, started: list[StreamingQuery]
) -> None:
    stream, kept, clock = MemoryStream("n int", session), Kept(), ManualClock(NOON)
    stream.add_data([1])
    writer = write_stream(stream.to_df()).trigger(Cron("*/5 * * * *", tz="Europe/Paris"))
    query = writer.clock(clock).foreachBatch(kept).start()
    started.append(query)
    clock.advance(299)
    assert query.status["message"] in ("Initializing sources", "Waiting for next trigger")
    clock.advance(1)
    assert kept.wait_for(0) == [1]
    stream.add_data([2])
    clock.advance(300)
    assert kept.wait_for(1) == [2]
    query.stop()
    assert query.lastProgress is not None
    assert query.lastProgress.timestamp == "2026-03-01T12:10:00.000Z"


@pytest.mark.core
def test_a_query_runs_after_each_batch_of_another(session: SparkSession, tmp_path: Path) -> None:
    stream, kept = MemoryStream("n int", session), Kept()
    stream.add_data([1])
    first = (
        write_stream(stream.to_df())
        .option("checkpointLocation", str(tmp_path / "first"))
        .start(str(tmp_path / "files"), format="json")
    )
    first.processAllAvailable()
    files = session.readStream.schema("n int").json(str(tmp_path / "files"))
    second = write_stream(files).trigger(AfterQuery(first)).foreachBatch(kept).start()
    assert kept.wait_for(0) == [1]
    stream.add_data([2])
    assert kept.wait_for(1) == [2]
    first.stop()
    assert second.awaitTermination(int(PATIENCE))
    assert second.exception() is None


def test_a_query_fails_when_the_one_that_it_follows_has_failed(session: SparkSession) -> None:
    stream, kept = MemoryStream("n int", session), Kept()
    stream.add_data([1])

    def fail(df: DataFrame, batch_id: int) -> None:
        raise KeyError("boom")

    first = write_stream(stream.to_df()).foreachBatch(fail).queryName("first_one").start()
    second = write_stream(stream.to_df()).trigger(AfterQuery(first)).foreachBatch(kept).start()
    with pytest.raises(StreamingQueryException, match=r"(?s)runs after each batch of .*first_one"):
        second.awaitTermination(int(PATIENCE))
    assert kept.batches == {0: [1]}


def test_a_query_that_is_restarted_is_followed_over_its_runs(
    session: SparkSession, tmp_path: Path, started: list[StreamingQuery]
) -> None:
    source, kept = MemoryStream("n int", session), Kept()
    failures = [KeyError("boom")]

    def fail_once(df: DataFrame, batch_id: int) -> None:
        if failures:
            raise failures.pop()

    writer = write_stream(source.to_df()).restart(backoff=0.01).foreachBatch(fail_once)
    first = writer.option("checkpointLocation", str(tmp_path / "first")).start()
    started.append(first)
    second = write_stream(source.to_df()).trigger(AfterQuery(first)).foreachBatch(kept).start()
    started.append(second)
    source.add_data([1])
    assert kept.wait_for(0) == [1]
    assert failures == []


def test_a_query_waits_for_a_backlog(session: SparkSession, started: list[StreamingQuery]) -> None:
    stream, kept, clock = MemoryStream("n int", session), Kept(), ManualClock(NOON)
    stream.add_data([1, 2])
    writer = write_stream(stream.to_df()).trigger(WhenBacklog(rows=3, or_after="1 minute"))
    query = writer.clock(clock).foreachBatch(kept).start()
    started.append(query)
    stream.add_data([3])
    assert kept.wait_for(0) == [1, 2, 3]
    query.processAllAvailable()
    stream.add_data([4])
    idle = threading.Event()
    query._execution.reporter.observe(lambda _: idle.set())
    clock.advance(30)
    assert idle.wait(PATIENCE)  # a record of the trigger that left the row for later
    assert 1 not in kept.batches
    # The time counts from when the query has found the row.
    for _ in range(int(PATIENCE)):
        clock.advance(61)
        if kept.has(1, within=1):
            break
    assert kept.batches[1] == [4]


class OnDemand(Trigger, TriggerExecutor):
    """The example of the documentation."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def fire(self) -> None:
        self._asked.set()

    def schedule(self, sources: Sequence[Any], surroundings: Surroundings) -> Schedule:
        return Schedule.of(sources, self)

    def execute(self, batch_runner: BatchRunner) -> None:
        goes_on = True
        while goes_on:
            self._asked.wait()
            self._asked.clear()
            goes_on = batch_runner()

    def wake(self) -> None:
        self._asked.set()


@pytest.mark.core
def test_a_trigger_of_a_user_runs_through_install(session: SparkSession) -> None:
    stream, kept, trigger = MemoryStream("n int", session), Kept(), OnDemand()
    stream.add_data([1])
    penstock.install()
    try:
        writer: Any = stream.to_df().writeStream
        query = writer.trigger(trigger).foreachBatch(kept).start()
    finally:
        penstock.uninstall()
    assert kept.batches == {}
    trigger.fire()
    assert kept.wait_for(0) == [1]
    query.stop()
    assert not query.isActive


def test_what_is_not_a_trigger_is_refused(session: SparkSession) -> None:
    writer = write_stream(MemoryStream("n int", session).to_df())
    with pytest.raises(UnknownTriggerError, match=r"'5 seconds'. Give a penstock.Trigger") as info:
        writer.trigger("5 seconds")  # type: ignore[arg-type]  # what is tested
    assert isinstance(info.value, TypeError)  # which PySpark raises
    with pytest.raises(PySparkValueError, match="ONLY_ALLOW_SINGLE_TRIGGER"):
        writer.trigger(Cron("* * * * *"), once=True)
    with pytest.raises(TypeError, match="AfterQuery needs a query that Penstock runs"):
        AfterQuery(StreamingQueryProgress)  # type: ignore[arg-type]  # what is tested


def test_a_query_of_sparks_engine_cannot_be_followed(session: SparkSession) -> None:
    query: Any = session.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        with pytest.raises(TypeError, match=r"with penstock.write_stream\(df\), or call penstock"):
            AfterQuery(query)
    finally:
        query.stop()
