"""A query from start to termination, and the methods that wait for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyspark.errors
import pytest
from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.errors import WrongThreadError
from penstock.spark.jvm.pyspark_api import HAS_CONDITIONS, condition_of
from tests.streams import Numbers, column, eventually, has_committed, query_id_of

REASON = (
    "Reason: ValueError: boom" if HAS_CONDITIONS else r"Return Message: [\s\S]*ValueError: boom"
)
FORCE_DELETE = "spark.sql.streaming.forceDeleteTempCheckpointLocation"


def start_noop(session: SparkSession, numbers: Numbers, name: str | None = None) -> StreamingQuery:
    writer = write_stream(read_stream(numbers, session)).format("noop")
    return (writer if name is None else writer.queryName(name)).start()


def start_failing(session: SparkSession) -> StreamingQuery:
    def boom(df: DataFrame, batch_id: int) -> None:
        raise ValueError("boom")

    return write_stream(read_stream(Numbers(1), session)).foreachBatch(boom).start()


def temporary_checkpoint(query: StreamingQuery) -> Path:
    return Path(query._execution.checkpoint.root.removeprefix("file:"))


def test_start_returns_a_running_query_that_is_one_of_pyspark_s(session: SparkSession) -> None:
    query = start_noop(session, Numbers(), "named")
    assert isinstance(query, PySparkStreamingQuery)
    assert query.isActive
    assert query.name == "named"
    assert query.exception() is None
    assert query.id != query.runId
    assert f"named [id = {query.id}, runId = {query.runId}]" in repr(query)


def test_a_query_may_have_no_name(session: SparkSession) -> None:
    assert start_noop(session, Numbers()).name is None


def test_the_id_stays_and_the_run_id_changes_over_a_restart(
    session: SparkSession, checkpoint: Path
) -> None:
    runs = []
    for _ in range(2):
        writer = write_stream(read_stream(Numbers(1), session)).format("noop")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.stop()
        runs.append(query)
    assert runs[0].id == runs[1].id == query_id_of(checkpoint)
    assert runs[0].runId != runs[1].runId


def test_await_termination_with_a_timeout_returns_whether_it_terminated(
    session: SparkSession,
) -> None:
    query = start_noop(session, Numbers())
    assert query.awaitTermination(0.05) is False  # type: ignore[arg-type]  # as PySpark takes it
    query.stop()
    assert query.awaitTermination(60) is True
    assert query.awaitTermination() is None


@pytest.mark.parametrize("timeout", [0, -1, "soon"])
def test_an_invalid_timeout_raises_pysparks_error(session: SparkSession, timeout: Any) -> None:
    query = start_noop(session, Numbers())
    native = session.readStream.format("rate").load().writeStream.format("noop").start()
    with pytest.raises(PySparkValueError) as expected:
        native.awaitTermination(timeout)
    with pytest.raises(PySparkValueError) as caught:
        query.awaitTermination(timeout)
    assert str(caught.value) == str(expected.value)


def test_await_termination_of_a_failed_query_raises_its_failure(
    session: SparkSession,
) -> None:
    query = start_failing(session)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=REASON):
            query.awaitTermination()
    assert not query.isActive


def test_the_exception_is_pyspark_s_with_condition_and_cause(session: SparkSession) -> None:
    query = start_failing(session)
    eventually(lambda: not query.isActive, "the end")
    with pytest.raises(pyspark.errors.StreamingQueryException) as caught:
        query.awaitTermination()
    error = query.exception()
    assert error is caught.value
    assert condition_of(error) == "STREAM_FAILED"
    assert error.getSqlState() == ("XXKST" if HAS_CONDITIONS else None)
    assert isinstance(error.cause, ValueError)


@pytest.mark.since("4.0", "the plan in the text of an error")
def test_the_text_of_the_exception_has_offsets_and_plan(session: SparkSession) -> None:
    with pytest.raises(StreamingQueryException) as caught:
        start_failing(session).awaitTermination()
    error = caught.value
    assert "=== Streaming Query ===" in str(error)
    assert "Current Available Offsets: {Numbers[python]: 1}" in str(error)
    assert "Logical Plan:" in str(error)


def test_a_query_that_did_not_fail_has_no_exception(session: SparkSession) -> None:
    rows = read_stream(Numbers(1), session)
    query = write_stream(rows).format("noop").trigger(once=True).start()
    query.awaitTermination()
    assert query.exception() is None
    assert not query.isActive


def test_process_all_available_returns_when_all_available_data_is_processed(
    session: SparkSession,
) -> None:
    numbers = Numbers()
    query = write_stream(read_stream(numbers, session)).format("memory").queryName("all").start()
    for available in (3, 3, 7):
        numbers.available = available
        query.processAllAvailable()
        assert session.table("all").count() == available


def test_process_all_available_raises_the_failure_of_the_query(session: SparkSession) -> None:
    query = start_failing(session)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="boom"):
            query.processAllAvailable()


def test_a_query_cannot_wait_for_itself(session: SparkSession) -> None:
    started = threading.Event()
    queries: list[StreamingQuery] = []

    def wait(df: DataFrame, batch_id: int) -> None:
        started.wait(60)
        queries[0].awaitTermination()

    queries.append(write_stream(read_stream(Numbers(1), session)).foreachBatch(wait).start())
    started.set()
    with pytest.raises(StreamingQueryException) as caught:
        queries[0].awaitTermination()
    assert isinstance(caught.value.__cause__, WrongThreadError)


def test_status_follows_the_state_of_the_query(session: SparkSession) -> None:
    inside, leave = threading.Event(), threading.Event()

    def wait(df: DataFrame, batch_id: int) -> None:
        inside.set()
        leave.wait(60)

    query = write_stream(read_stream(Numbers(1), session)).foreachBatch(wait).start()
    assert inside.wait(60)
    busy = query.status
    leave.set()
    query.stop()
    assert busy == {
        "message": "Processing new data",
        "isDataAvailable": True,
        "isTriggerActive": True,
    }
    assert query.status == {
        "message": "Stopped",
        "isDataAvailable": False,
        "isTriggerActive": False,
    }


def test_explain_prints_the_plan_of_the_latest_batch(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = Numbers()
    query = start_noop(session, numbers)
    query.explain()
    assert "No physical plan. Waiting for data." in capsys.readouterr().out
    numbers.available = 1
    has_committed(query, 0)
    query.explain()
    short = capsys.readouterr().out
    assert "== Physical Plan ==" in short
    assert "== Analyzed Logical Plan ==" not in short
    query.explain(extended=True)
    assert "== Analyzed Logical Plan ==" in capsys.readouterr().out


def test_a_temporary_checkpoint_is_deleted_at_the_end(session: SparkSession) -> None:
    query = start_noop(session, Numbers(1))
    place = temporary_checkpoint(query)
    query.processAllAvailable()
    assert (place / "offsets" / "0").exists()
    query.stop()
    assert not place.exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_temporary_checkpoint_is_kept_after_a_failure_unless_forced(
    session: SparkSession, force: bool
) -> None:
    session.conf.set(FORCE_DELETE, str(force).lower())
    query = start_failing(session)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    assert temporary_checkpoint(query).exists() is not force


def test_the_default_checkpoint_location_is_used_with_the_query_name(
    session: SparkSession, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    rows = read_stream(Numbers(2), session)
    query = write_stream(rows).format("parquet").queryName("kept").start(str(tmp_path / "out"))
    query.processAllAvailable()
    query.stop()
    assert query_id_of(tmp_path / "kept") == query.id
    assert column(session.read.parquet(str(tmp_path / "out"))) == [0, 1]
