"""Listeners: which events they get, in which order, and that their errors fail no query."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException as PySparkStreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.engine.events import QueryProgressEvent as OurProgressEvent
from penstock.engine.progress import SinkProgress, SourceProgress, StreamingQueryProgress
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.session.jvm_events import to_jvm_event
from tests.streams import LineFiles, Numbers, eventually, progress_fields

IDLE_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"


class Recorder(StreamingQueryListener):
    """Records all events."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self.heard.append(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.heard.append(event)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self.heard.append(event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.heard.append(event)

    def kinds_of(self, query: StreamingQuery) -> list[str]:
        """The kinds of events of a query, in order, without consecutive duplicates."""
        kinds: list[str] = []
        for event in self.heard:
            progress = getattr(event, "progress", None)
            run_id = event.runId if progress is None else progress.runId
            kind = type(event).__name__.removeprefix("Query").removesuffix("Event")
            if str(run_id) == query.runId and kinds[-1:] != [kind]:
                kinds.append(kind)
        return kinds

    def of_kind(self, kind: type) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


Listen = Callable[[StreamingQueryListener], None]


@pytest.fixture
def listen(session: SparkSession) -> Iterator[Listen]:
    """Adds a listener, which is removed after the test."""
    added: list[StreamingQueryListener] = []

    def add(listener: StreamingQueryListener) -> None:
        session.streams.addListener(listener)
        added.append(listener)

    yield add
    for listener in added:
        session.streams.removeListener(listener)


def test_a_listener_hears_of_the_start_progress_idleness_and_end_in_that_order(
    session: SparkSession, listen: Listen
) -> None:
    recorder = Recorder()
    listen(recorder)
    session.conf.set(IDLE_INTERVAL, "1ms")
    query = write_stream(read_stream(Numbers(2), session)).format("noop").queryName("heard").start()
    eventually(lambda: recorder.of_kind(QueryIdleEvent), "an idle event")
    query.stop()
    eventually(lambda: recorder.of_kind(QueryTerminatedEvent), "the end")
    assert recorder.kinds_of(query) == ["Started", "Progress", "Idle", "Terminated"]
    [started] = recorder.of_kind(QueryStartedEvent)
    assert (str(started.id), str(started.runId), started.name) == (query.id, query.runId, "heard")
    progress = recorder.of_kind(QueryProgressEvent)[0].progress
    assert (progress.batchId, progress.numInputRows) == (0, 2)
    assert progress.sources[0].endOffset == "2"
    [terminated] = recorder.of_kind(QueryTerminatedEvent)
    assert terminated.exception is None


def test_start_returns_after_the_listeners_were_told(session: SparkSession, listen: Listen) -> None:
    recorder = Recorder()
    listen(recorder)
    query = write_stream(read_stream(Numbers(), session)).format("noop").start()
    assert recorder.kinds_of(query)[:1] == ["Started"]


def test_the_end_of_a_query_that_failed_names_the_error(
    session: SparkSession, listen: Listen
) -> None:
    recorder = Recorder()
    listen(recorder)
    query = write_stream(read_stream(Numbers(1), session)).foreachBatch(boom).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    eventually(lambda: recorder.of_kind(QueryTerminatedEvent), "the end")
    [terminated] = recorder.of_kind(QueryTerminatedEvent)
    assert "KeyError" in terminated.exception
    assert "in boom" in terminated.exception


def boom(df: DataFrame, batch_id: int) -> None:
    raise KeyError("boom")


@pytest.mark.parametrize(
    ("function", "condition"),
    [(None, "FAILED_READ_FILE.NO_HINT"), (boom, "FOREACH_BATCH_USER_FUNCTION_ERROR")],
)
@pytest.mark.since("4.0", "these conditions")
def test_the_condition_of_the_error_is_that_of_spark_s_own_engine(
    session: SparkSession,
    listen: Listen,
    tmp_path: Path,
    function: Callable[[DataFrame, int], None] | None,
    condition: str,
) -> None:
    recorder = Recorder()
    listen(recorder)
    (tmp_path / "a.parquet").write_text("as if this were a file of parquet")
    rows = session.readStream.schema("n long").parquet(str(tmp_path))
    for writer in (rows.writeStream, write_stream(rows)):
        writer = writer.foreachBatch(function) if function else writer.format("noop")
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(PySparkStreamingQueryException):
            query.awaitTermination()
    eventually(lambda: len(recorder.of_kind(QueryTerminatedEvent)) == 2, "both ends")
    ends = recorder.of_kind(QueryTerminatedEvent)
    assert [end.errorClassOnException for end in ends] == [condition, condition]


@pytest.mark.filterwarnings("ignore")
def test_a_listener_that_raises_does_not_hurt_the_query(
    session: SparkSession, listen: Listen
) -> None:
    class Raising(Recorder):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            super().onQueryStarted(event)
            raise RuntimeError("not my day")

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            super().onQueryProgress(event)
            raise RuntimeError("not my day")

    raising = Raising()
    listen(raising)
    query = write_stream(read_stream(Numbers(4, at_most=2), session)).format("noop").start()
    query.processAllAvailable()
    eventually(lambda: len(raising.of_kind(QueryProgressEvent)) > 1, "two reports")
    assert query.isActive
    query.stop()
    assert query.exception() is None


def test_observed_metrics_are_in_the_progress_of_query_and_listener(
    session: SparkSession, listen: Listen
) -> None:
    recorder = Recorder()
    listen(recorder)
    rows = read_stream(Numbers(4, at_most=2), session)
    observed = rows.observe("figures", F.count(F.lit(1)).alias("rows"), F.max("n").alias("top"))
    query = write_stream(observed).format("noop").start()
    query.processAllAvailable()
    found = [p.observedMetrics["figures"] for p in query.recentProgress[:2]]
    assert [(row.rows, row.top) for row in found] == [(2, 1), (2, 3)]
    eventually(lambda: len(recorder.of_kind(QueryProgressEvent)) > 1, "two reports")
    heard = recorder.of_kind(QueryProgressEvent)[1].progress.observedMetrics["figures"]
    assert (heard["rows"], heard["top"]) == (2, 3)


def test_an_observed_interval_is_a_text_in_the_progress(session: SparkSession) -> None:
    rows = read_stream(Numbers(2), session)
    late = F.max(F.make_dt_interval(mins=F.col("n"))).alias("late")
    figures = rows.observe(
        "figures", late, F.count(F.lit(1)).alias("rows"), F.max("n").alias("top")
    )
    query = write_stream(figures).format("noop").start()
    query.processAllAvailable()
    found = query.recentProgress[0].observedMetrics["figures"]
    assert (found.late, found.rows, found.top) == ("PT1M", 2, 1)


@pytest.mark.parametrize("engine", ["spark", "penstock"])
def test_listeners_get_the_numbers_of_recent_progress_before_they_are_rounded(
    session: SparkSession, listen: Listen, tmp_path: Path, engine: str
) -> None:
    recorder = Recorder()
    listen(recorder)
    files = LineFiles(tmp_path / "in")
    files.add(*"abcdefg")
    files.add(*"hijklmn")
    rows = files.stream(session)
    writer = rows.writeStream if engine == "spark" else write_stream(rows)
    query = writer.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    eventually(lambda: recorder.of_kind(QueryTerminatedEvent), "the end")
    heard = [event.progress for event in recorder.of_kind(QueryProgressEvent)]
    recent = query.recentProgress[: len(heard)]
    assert [progress_fields(p) for p in heard] == [progress_fields(p) for p in recent]
    for progress, shown in zip(heard, recent, strict=True):
        seconds = max(1, progress.batchDuration) / 1000
        assert progress.processedRowsPerSecond == progress.numInputRows / seconds
        rate = progress_fields(progress)["processedRowsPerSecond"]
        assert shown["processedRowsPerSecond"] == rate
        of_source = progress_fields(progress)["sources"][0]["processedRowsPerSecond"]
        assert shown["sources"][0]["processedRowsPerSecond"] == of_source


RATES = [0.0, 5.0, 100.0, 0.05, 0.15, 0.25, 0.35, 1 / 3, 1234.5678, 123456789012.25]


@pytest.mark.parametrize("rate", [*RATES, float("inf"), float("nan")])
def test_a_record_is_written_as_spark_writes_it(session: SparkSession, rate: float) -> None:
    metrics = {"z": "1.25E3", "avgOffsetsBehindLatest": "1.25E1", "a": "b"}
    source = SourceProgress("source", None, "5", '{"a":[1]}', 7, rate, rate, metrics)
    record = StreamingQueryProgress(
        id=str(uuid.uuid4()),
        run_id=str(uuid.uuid4()),
        name=None,
        timestamp="2024-01-01T00:00:00.000Z",
        batch_id=3,
        batch_duration_ms=12,
        duration_ms={"walCommit": 1, "addBatch": 2},
        event_time={},
        state_operators=(),
        sources=(source, source),
        sink=SinkProgress("sink", 7, {"z": "1", "a": "2"}),
        observed_metrics={},
        is_rounded=Jvm.of(session).line.rounds_rates,
        shows_duration=Jvm.of(session).line.shows_batch_duration,
    )
    event = to_jvm_event(Jvm.of(session), OurProgressEvent(record))
    if record.is_rounded:
        assert record.json == event.progress().json()
    else:  # where Java writes a large number with an exponent
        assert json.loads(record.json) == json.loads(event.progress().json())
    heard = event.progress().inputRowsPerSecond()
    assert heard == 2 * rate or (math.isnan(heard) and math.isnan(rate))
