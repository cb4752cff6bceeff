"""The query manager: unique names and ids, and `awaitAnyTermination`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.errors import StreamingQueryException as PySparkStreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.api.manager import streams
from penstock.errors import ExecutionError
from tests.streams import Numbers, column, has_committed, log_entries

STOP_ACTIVE = "spark.sql.streaming.stopActiveRunOnRestart"


def start(session: SparkSession, numbers: Numbers, **options: str) -> StreamingQuery:
    return write_stream(read_stream(numbers, session)).format("noop").start(**options)


def test_running_queries_are_found_and_ended_ones_are_not(session: SparkSession) -> None:
    manager = streams(session)
    assert manager is streams(session)
    query = start(session, Numbers())
    assert manager.active == [query]
    assert manager.get(query.id) is query
    assert manager.get(query.id.upper()) is query
    with pytest.raises(IllegalArgumentException, match="Invalid UUID string: no id"):
        manager.get("no id")
    query.stop()
    assert manager.active == []
    assert manager.get(query.id) is None


def test_another_session_does_not_see_them(session: SparkSession) -> None:
    start(session, Numbers())
    assert streams(session.newSession()).active == []


def test_a_name_is_taken_while_its_query_runs(session: SparkSession) -> None:
    first = start(session, Numbers(), queryName="taken")
    with pytest.raises(ExecutionError, match="Cannot start query with name taken"):
        start(session, Numbers(), queryName="taken")
    with pytest.raises(IllegalArgumentException, match="Cannot start query with name taken"):
        start(session, Numbers(), queryName="taken")
    first.stop()
    assert start(session, Numbers(), queryName="taken").isActive


def test_exactly_one_of_several_concurrent_starts_with_one_name_succeeds(
    session: SparkSession,
) -> None:
    frame = read_stream(Numbers(), session)
    begin = threading.Barrier(3)
    outcomes: list[str] = []

    def try_it() -> None:
        writer = write_stream(frame).format("noop").queryName("raced_for")
        begin.wait(60)
        try:
            writer.start()
            outcomes.append("started")
        except ExecutionError:
            outcomes.append("refused")

    threads = [threading.Thread(target=try_it) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["refused", "refused", "started"]


def test_a_checkpoint_in_use_is_refused_without_stop_active_run(
    session: SparkSession, checkpoint: Path
) -> None:
    session.conf.set(STOP_ACTIVE, "false")
    first = start(session, Numbers(1), checkpointLocation=str(checkpoint))
    first.processAllAvailable()
    with pytest.raises(ExecutionError, match="another query with same id is already active"):
        start(session, Numbers(1), checkpointLocation=str(checkpoint))
    other_session = session.newSession()
    other_session.conf.set(STOP_ACTIVE, "false")
    with pytest.raises(ExecutionError, match="another query with same id is already active"):
        start(other_session, Numbers(1), checkpointLocation=str(checkpoint))
    assert first.isActive
    assert log_entries(checkpoint, "commits") == [0]


def test_a_checkpoint_in_use_is_taken_over_with_stop_active_run(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.conf.set(STOP_ACTIVE, "true")
    first = start(session, Numbers(1000, at_most=1), checkpointLocation=str(checkpoint))
    has_committed(first, 1)
    second = start(session, Numbers(1000, at_most=1), checkpointLocation=str(checkpoint))
    assert not first.isActive
    assert first.exception() is None
    assert "Stopping existing streaming query" in caplog.text
    has_committed(second, log_entries(checkpoint, "commits")[-1] + 1)
    assert second.exception() is None
    assert streams(session).active == [second]
    assert second.id == first.id


def test_a_checkpoint_that_spark_s_own_engine_uses_is_refused(
    session: SparkSession, checkpoint: Path
) -> None:
    rate = session.readStream.format("rate").load()
    native = rate.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(ExecutionError, match=r"run by Spark's own engine.*Stop that query"):
        start(session, Numbers(), checkpointLocation=str(checkpoint))
    assert native.isActive
    assert streams(session).get(native.id) is not None


def test_await_any_termination(session: SparkSession) -> None:
    manager = streams(session)
    assert manager.awaitAnyTermination(0.05) is False
    first, second = start(session, Numbers()), start(session, Numbers())
    assert manager.awaitAnyTermination(0) is False
    first.stop()
    assert manager.awaitAnyTermination() is None
    assert manager.awaitAnyTermination(60) is True
    manager.resetTerminated()
    assert manager.awaitAnyTermination(0.05) is False
    second.stop()
    assert manager.awaitAnyTermination(60) is True


def test_await_any_termination_raises_the_failure_of_a_query(session: SparkSession) -> None:
    def boom(df: DataFrame, batch_id: int) -> None:
        raise ValueError("boom")

    manager = streams(session)
    write_stream(read_stream(Numbers(1), session)).foreachBatch(boom).start()
    with pytest.raises(StreamingQueryException, match="boom"):
        manager.awaitAnyTermination()
    start(session, Numbers()).stop()
    with pytest.raises(StreamingQueryException, match="boom"):
        manager.awaitAnyTermination(60)
    manager.resetTerminated()
    assert manager.awaitAnyTermination(0.05) is False


def start_on_spark(session: SparkSession, column: str) -> PySparkStreamingQuery:
    rates = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    return rates.selectExpr(column).writeStream.format("noop").start()


def test_await_any_termination_raises_the_failure_of_a_query_on_spark_s_own_engine(
    session: SparkSession,
) -> None:
    manager = streams(session)
    here = start(session, Numbers())
    start_on_spark(session, "raise_error('no such rate')")
    with pytest.raises(PySparkStreamingQueryException, match="no such rate"):
        manager.awaitAnyTermination()
    here.stop()
    with pytest.raises(PySparkStreamingQueryException, match="no such rate"):
        manager.awaitAnyTermination(60)
    manager.resetTerminated()
    assert manager.awaitAnyTermination(0.05) is False


def test_await_any_termination_returns_when_a_query_on_spark_s_own_engine_is_stopped(
    session: SparkSession,
) -> None:
    manager = streams(session)
    native = start_on_spark(session, "value")
    assert manager.awaitAnyTermination(0.05) is False
    stopper = threading.Timer(0.5, native.stop)
    stopper.start()
    assert manager.awaitAnyTermination() is None
    stopper.join()
    assert manager.awaitAnyTermination(0) is True


@pytest.mark.parametrize("timeout", [-1, "soon"])
def test_an_invalid_timeout_raises_pysparks_error(session: SparkSession, timeout: Any) -> None:
    messages = []
    for manager in (session.streams, streams(session)):
        with pytest.raises(ValueError, match="timeout") as caught:
            manager.awaitAnyTermination(timeout)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_many_queries_run_concurrently(session: SparkSession) -> None:
    frame = read_stream(Numbers(6, at_most=2), session)
    names = [f"beside_{number}" for number in range(4)]
    queries = [write_stream(frame).format("memory").queryName(name).start() for name in names]
    for query, name in zip(queries, names, strict=True):
        query.processAllAvailable()
        assert column(session.table(name)) == [0, 1, 2, 3, 4, 5]
