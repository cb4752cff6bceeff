"""The restart policy on Spark: one handle over several runs, for the query and for its manager."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock import (
    DataStreamWriter,
    QuerySnapshot,
    StreamingQuery,
    StreamingQueryException,
    read_stream,
    snapshots,
    write_stream,
)
from penstock.api.manager import streams
from penstock.api.restart import RestartingQuery
from penstock.engine.clock import Clock
from penstock.errors import ExecutionError
from penstock.observe.health import check_health
from tests.streams import PATIENCE, HeldClock, Numbers, column, eventually, log_entries

_LOCATION = "spark.sql.streaming.checkpointLocation"
_POOL = "spark.scheduler.pool"


class FailingOnce:
    """Keeps rows by batch; fails once, in batch 1."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.errors = [ConnectionError("no network")]

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and self.errors:
            raise self.errors.pop()
        self.rows[batch_id] = column(df)


def restarting(
    session: SparkSession, sink: FailingOnce, checkpoint: Path, clock: Clock
) -> DataStreamWriter:
    writer = write_stream(read_stream(Numbers(3, at_most=1), session)).foreachBatch(sink)
    writer.queryName("restarting").option("checkpointLocation", str(checkpoint))
    return writer.restart(backoff=2.0, clock=clock)


def seen(query: StreamingQuery) -> QuerySnapshot:
    """The snapshot of the query in the observatory."""
    [snapshot] = [snapshot for snapshot in snapshots() if snapshot.id == query.id]
    return snapshot


def test_a_query_continues_after_a_failure_with_the_same_handle(
    session: SparkSession, checkpoint: Path
) -> None:
    sink, clock, manager = FailingOnce(), HeldClock(), streams(session)
    manager.resetTerminated()
    query = restarting(session, sink, checkpoint, clock).start()
    assert isinstance(query, RestartingQuery)
    query_id, first_run = query.id, query.runId
    assert clock.waiting.wait(PATIENCE)
    assert query.isActive
    assert query.status["message"] == "Restarting in 2 s after: no network"
    assert seen(query).condition == "restarting"
    assert seen(query).status == "Restarting in 2 s after: no network"
    assert not check_health([seen(query)]).is_healthy
    assert query in manager.active
    assert manager.get(query_id) is query
    assert manager.awaitAnyTermination(0) is False
    with pytest.raises(ExecutionError, match="name restarting"):
        write_stream(read_stream(Numbers(), session)).queryName("restarting").format("noop").start()
    clock.over.set()
    query.processAllAvailable()
    assert sink.rows == {0: [0], 1: [1], 2: [2]}
    assert (query.id, query.restarts) == (query_id, 1)
    assert query.runId != first_run
    assert seen(query).condition == "running"
    assert check_health([seen(query)]).is_healthy
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
    query.stop()
    assert manager.awaitAnyTermination(0) is True
    assert query.exception() is None
    assert query not in manager.active


def test_stop_cancels_a_pending_restart(session: SparkSession, checkpoint: Path) -> None:
    sink, clock, manager = FailingOnce(), HeldClock(), streams(session)
    query = restarting(session, sink, checkpoint, clock).start()
    assert clock.waiting.wait(PATIENCE)
    query.stop(timeout=PATIENCE)
    assert not query.isActive
    eventually(lambda: query not in manager.active, "the manager to remove it")
    eventually(lambda: seen(query).condition == "failed", "the last run's outcome")
    assert log_entries(checkpoint, "commits") == [0]


def test_an_error_of_the_query_itself_is_fatal(session: SparkSession, checkpoint: Path) -> None:
    def wrong(df: DataFrame, batch_id: int) -> None:
        df.select("missing")

    writer = write_stream(read_stream(Numbers(1), session)).foreachBatch(wrong)
    query = writer.option("checkpointLocation", str(checkpoint)).restart().start()
    with pytest.raises(StreamingQueryException, match="UNRESOLVED_COLUMN"):
        query.awaitTermination(60)
    assert query.status["restarts"] == 0
    assert not query.isActive


def test_restart_needs_a_checkpoint_location_and_refuses_stepped(
    session: SparkSession, checkpoint: Path
) -> None:
    writer = write_stream(read_stream(Numbers(), session)).format("noop").restart()
    with pytest.raises(ExecutionError, match="checkpointLocation"):
        writer.start()
    writer.option("checkpointLocation", str(checkpoint)).stepped()
    with pytest.raises(ExecutionError, match="stepped"):
        writer.start()
    assert not isinstance(writer.restart(on_failure=False).start(), RestartingQuery)


def test_the_sessions_checkpoint_is_resolved_once(session: SparkSession, tmp_path: Path) -> None:
    """For a query without a name Spark would choose a new random directory for each run."""
    sink, clock = FailingOnce(), HeldClock()
    writer = write_stream(read_stream(Numbers(3, at_most=1), session)).foreachBatch(sink)
    session.conf.set(_LOCATION, str(tmp_path / "first"))
    query = writer.restart(clock=clock).start()
    query_id, options = query.id, seen(query).options
    assert clock.waiting.wait(PATIENCE)
    session.conf.set(_LOCATION, str(tmp_path / "second"))
    clock.over.set()
    query.processAllAvailable()
    assert sink.rows == {0: [0], 1: [1], 2: [2]}
    assert query.id == query_id
    assert seen(query).options == options
    query.stop(timeout=PATIENCE)
    [checkpoint] = (tmp_path / "first").iterdir()
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
    assert not (tmp_path / "second").exists()
    other = writer.start()
    assert other.id != query_id, "the writer itself is pinned to no checkpoint"


def test_a_checkpoint_that_is_wiped_between_two_runs_ends_the_query(
    session: SparkSession, checkpoint: Path
) -> None:
    clock, manager = HeldClock(), streams(session)
    query = restarting(session, FailingOnce(), checkpoint, clock).start()
    query_id = query.id
    assert clock.waiting.wait(PATIENCE)
    shutil.rmtree(checkpoint)
    clock.over.set()
    with pytest.raises(StreamingQueryException, match=rf"query {query_id} .* emptied"):
        query.awaitTermination(int(PATIENCE))
    query.stop(timeout=PATIENCE)
    assert not query.isActive
    assert manager.get(query_id) is None
    assert query not in manager.active


@pytest.fixture
def pool(session: SparkSession) -> Iterator[str]:
    """A scheduler pool and a job tag of the same name, set on the test's thread."""
    session.sparkContext.setLocalProperty(_POOL, "nightly")
    session.sparkContext.addJobTag("nightly")
    yield "nightly"
    session.sparkContext.clearJobTags()
    session.sparkContext.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # unsets it


def test_every_run_has_the_pool_and_the_tags_of_the_starting_thread(
    session: SparkSession, checkpoint: Path, pool: str
) -> None:
    found: list[tuple[int, str | None, bool]] = []
    context = session.sparkContext

    class Noting(FailingOnce):
        def __call__(self, df: DataFrame, batch_id: int) -> None:
            is_tagged = pool in context.getJobTags()
            found.append((batch_id, context.getLocalProperty(_POOL), is_tagged))
            super().__call__(df, batch_id)

    clock = HeldClock()
    clock.over.set()
    query = restarting(session, Noting(), checkpoint, clock).start()
    query.processAllAvailable()
    assert query.status["restarts"] == 1
    assert found == [(batch_id, pool, True) for batch_id in (0, 1, 1, 2)]


class StatusListener(StreamingQueryListener):
    """Reads the status of the query when it is restarted, and stops it."""

    def __init__(self) -> None:
        self.query: StreamingQuery | None = None
        self.answers: list[tuple[str, int]] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        if self.query is not None:
            self.answers.append((str(event.runId), self.query.status["restarts"]))
            self.query.stop()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def test_a_listener_may_read_and_stop_a_query_that_is_restarted(
    session: SparkSession, checkpoint: Path
) -> None:
    sink, clock, listener = FailingOnce(), HeldClock(), StatusListener()
    streams(session).addListener(listener)
    try:
        listener.query = query = restarting(session, sink, checkpoint, clock).start()
        assert clock.waiting.wait(PATIENCE)
        clock.over.set()
        assert query.awaitTermination(int(PATIENCE)) is True
    finally:
        streams(session).removeListener(listener)
    assert listener.answers == [(query.runId, 1)]
    assert sink.rows == {0: [0]}
