"""Progress records: Spark's fields with the right values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, read_stream, write_stream
from tests.streams import LineFiles, Numbers, has_committed, progress_fields

PHASES = {
    "addBatch",
    "commitOffsets",
    "getBatch",
    "latestOffset",
    "queryPlanning",
    "triggerExecution",
    "walCommit",
}


def test_the_progress_of_a_batch(session: SparkSession) -> None:
    rows = read_stream(Numbers(5, at_most=3), session)
    query = write_stream(rows).format("noop").queryName("figures").start()
    query.processAllAvailable()
    progress = query.recentProgress[1]
    assert (str(progress.id), str(progress.runId)) == (query.id, query.runId)
    assert progress.name == "figures"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", progress.timestamp)
    assert (progress.batchId, progress.numInputRows) == (1, 2)
    assert set(progress.durationMs) == PHASES
    assert progress.durationMs["triggerExecution"] >= progress.durationMs["addBatch"]
    # Measured with two clocks, as in Spark, so that rounding may make them differ by one.
    assert progress.batchDuration >= progress.durationMs["triggerExecution"] - 1
    assert progress.inputRowsPerSecond > 0
    assert progress.processedRowsPerSecond > 0
    [source] = progress.sources
    assert (source.startOffset, source.endOffset, source.latestOffset) == ("3", "5", "5")
    assert progress.sink.numOutputRows == 2
    assert query.lastProgress is not None
    assert query.lastProgress.batchId >= 1


def test_progress_retention_keeps_one_record_less_than_configured_as_spark_does(
    session: SparkSession,
) -> None:
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "3")
    query = write_stream(read_stream(Numbers(6, at_most=1), session)).format("noop").start()
    has_committed(query, 5)
    assert len(query.recentProgress) == 2


def stateful(session: SparkSession, files: LineFiles) -> DataFrame:
    times = files.stream(session).select(F.to_timestamp("value").alias("at"))
    windows = times.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()
    return windows.observe("seen", F.count(F.lit(1)).alias("rows"))


def test_state_and_event_time_are_in_the_progress(session: SparkSession, tmp_path: Path) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("2024-01-01 00:00:10", "2024-01-01 00:00:50")
    files.add("2024-01-01 00:05:00")
    writer = write_stream(stateful(session, files)).format("noop").trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    first, second, no_data = query.recentProgress[:3]
    assert first.eventTime == {
        "avg": "2024-01-01T00:00:30.000Z",
        "max": "2024-01-01T00:00:50.000Z",
        "min": "2024-01-01T00:00:10.000Z",
        "watermark": "1970-01-01T00:00:00.000Z",
    }
    assert first.stateOperators[0].numRowsTotal == 1
    assert second.eventTime["watermark"] == "2023-12-31T23:59:50.000Z"
    assert no_data.numInputRows == 0
    assert no_data.eventTime["watermark"] == "2024-01-01T00:04:00.000Z"
    assert no_data.sink.numOutputRows == 1
    assert no_data.stateOperators[0].numRowsRemoved == 1


def test_the_fields_are_those_of_spark_s_own_engine(session: SparkSession, tmp_path: Path) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("2024-01-01 00:00:10")
    frame = stateful(session, files)
    shapes = []
    for writer in (frame.writeStream, write_stream(frame)):
        query = writer.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        shapes.append(shape(progress_fields(query.recentProgress[0])))
    assert shapes[0] == shapes[1]


def shape(value: Any) -> Any:
    """The field names and types of a JSON value, without its values."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(member) for member in value]
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def test_a_query_without_a_trigger_has_no_progress(session: SparkSession) -> None:
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1h")
    rows = read_stream(Numbers(), session)
    query: StreamingQuery = write_stream(rows).format("noop").start()
    query.stop()
    assert [progress.numInputRows for progress in query.recentProgress] in ([], [0])
