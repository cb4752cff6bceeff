"""Settings that are read from the user's session while a query runs, as Spark does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import read_stream, write_stream
from penstock.errors import QueryStopTimeoutError
from tests.streams import PATIENCE, LineFiles, Numbers, log_entries, query_id_of

ENGINES = ["spark", "penstock"]
S = "spark.sql.streaming."


def writer_of(engine: str, df: DataFrame) -> Any:
    return df.writeStream if engine == "spark" else write_stream(df)


def test_the_bound_of_a_stop_is_read_when_it_is_stopped(session: SparkSession) -> None:
    is_running, goes_on = threading.Event(), threading.Event()

    def wait(df: DataFrame, batch_id: int) -> None:
        is_running.set()
        assert goes_on.wait(PATIENCE)

    query = write_stream(read_stream(Numbers(1), session)).foreachBatch(wait).start()
    assert is_running.wait(PATIENCE)
    session.conf.set(S + "stopTimeout", "50ms")
    with pytest.raises(QueryStopTimeoutError, match="failed to stop within 50 milliseconds"):
        query.stop()
    session.conf.set(S + "stopTimeout", "0")
    goes_on.set()
    query.stop()
    assert not query.isActive


@pytest.mark.parametrize("engine", ENGINES)
def test_how_many_records_are_kept_may_change(
    session: SparkSession, tmp_path: Path, engine: str
) -> None:
    files = LineFiles(tmp_path / "in")
    query = writer_of(engine, files.stream(session)).format("noop").start()
    for word in "abc":
        files.add(word)
        query.processAllAvailable()
    session.conf.set(S + "numRecentProgressUpdates", "3")
    files.add("d")
    query.processAllAvailable()
    kept = len(query.recentProgress)
    query.stop()
    assert kept == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([0, 1], marks=pytest.mark.until("3.5", "a wrapper that cannot be turned off")),
        pytest.param([0], marks=pytest.mark.since("4.0", "a setting for the wrapper")),
    ],
)
def test_available_now_with_a_source_that_does_not_support_it(
    session: SparkSession, checkpoint: Path, engine: str, batches: list[int]
) -> None:
    def run(sink: Callable[[DataFrame, int], None]) -> None:
        writer = writer_of(engine, session.readStream.format("rate").load()).foreachBatch(sink)
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    def crash(df: DataFrame, batch_id: int) -> None:
        raise OSError("crash")

    with pytest.raises(StreamingQueryException):
        run(crash)
    # The source has a row for each second since the time in this file.
    (checkpoint / "sources/0/0").write_text("v1\n1000")
    (checkpoint / "sources/0/.0.crc").unlink(missing_ok=True)
    run(lambda df, batch_id: None)
    assert log_entries(checkpoint, "commits") == batches


@pytest.mark.until("4.2", "settings that are checked only when a query starts")
@pytest.mark.parametrize("retained", ["0", "-1"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_query_that_retains_no_batch_is_refused_before_it_writes(
    session: SparkSession, checkpoint: Path, tmp_path: Path, engine: str, retained: str
) -> None:
    session.conf.set(S + "minBatchesToRetain", retained)
    files = LineFiles(tmp_path / "in")
    files.add("a")
    writer = writer_of(engine, files.stream(session)).format("noop")
    writer.option("checkpointLocation", str(checkpoint))
    with pytest.raises(IllegalArgumentException, match="minBatchesToRetain has to be positive"):
        writer.start()
    assert list(checkpoint.iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "verified",
    [
        pytest.param("true", marks=pytest.mark.since("4.2", "a check that `metadata` exists")),
        "false",
    ],
)
def test_a_checkpoint_without_its_id_is_refused_unless_the_session_says_otherwise(
    session: SparkSession, checkpoint: Path, tmp_path: Path, engine: str, verified: str
) -> None:
    session.conf.set(S + "checkpoint.verifyMetadataExists.enabled", verified)
    files = LineFiles(tmp_path / "in")
    files.add("a")

    def run() -> None:
        writer = writer_of(engine, files.stream(session)).format("noop")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    before = query_id_of(checkpoint)
    (checkpoint / "metadata").unlink()
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)
    if verified == "true":
        with pytest.raises(Exception, match="metadata file is missing"):
            run()
    else:
        run()
        assert query_id_of(checkpoint) != before


@pytest.mark.until("4.1", "no names of sources and sinks")
@pytest.mark.parametrize("engine", ENGINES)
def test_settings_of_a_later_spark_have_no_effect(
    session: SparkSession, checkpoint: Path, tmp_path: Path, engine: str
) -> None:
    session.conf.set(S + "offsetLog.formatVersion", "2")
    session.conf.set(S + "queryEvolution.enableSourceEvolution", "true")
    session.conf.set(S + "queryEvolution.enableSinkEvolution", "true")
    files = LineFiles(tmp_path / "in")
    files.add("a")
    writer = writer_of(engine, files.stream(session)).format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    written = [
        (checkpoint / log / "0").read_text().splitlines()[0] for log in ("offsets", "commits")
    ]
    assert written == ["v1", "v1"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("forced", [True, False])
def test_a_temporary_checkpoint_of_a_failed_query_goes_if_the_session_then_says_so(
    session: SparkSession, tmp_path: Path, engine: str, forced: bool
) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    places: list[Path] = []

    def fail(df: DataFrame, batch_id: int) -> None:
        # Set in the user's session, not in the clone that the batch runs in.
        session.conf.set(S + "forceDeleteTempCheckpointLocation", str(forced).lower())
        raise KeyError("a")

    query = writer_of(engine, files.stream(session)).foreachBatch(fail).start()
    places.append(temporary_checkpoint(query, engine))
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    assert places[0].exists() is not forced


def temporary_checkpoint(query: Any, engine: str) -> Path:
    if engine == "spark":
        wrapped = query._jsq.streamingQuery()
        return Path(wrapped.resolvedCheckpointRoot().removeprefix("file:"))
    return Path(query._execution.checkpoint.root.removeprefix("file:"))


@pytest.mark.since("4.1", "a count of the state that a batch commits")
def test_whether_commits_of_state_are_counted_is_read_at_every_batch(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    # Spark reads it as often, and fails this query: it validates a batch it did not track.
    files = LineFiles(tmp_path / "in")
    files.add("a")
    counts = files.stream(session).groupBy("value").agg(F.count(F.lit(1)).alias("rows"))

    def compute_the_first(df: DataFrame, batch_id: int) -> None:
        if batch_id == 0:
            df.collect()

    writer = write_stream(counts).foreachBatch(compute_the_first).outputMode("update")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    session.conf.set(S + "stateStore.commitValidation.enabled", "false")
    files.add("b")
    query.processAllAvailable()
    error = query.exception()
    query.stop()
    assert error is None
