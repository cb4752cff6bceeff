"""The plan of a batch: its sources, their metadata paths, and the batch timestamp."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQueryException, read_stream, write_stream
from penstock.engine.faults import FaultPoint
from penstock.errors import WrongThreadError
from penstock.spark.jvm.gateway import Jvm
from tests.streams import LineFiles, Numbers, column, logged_offsets, run_available, write_struck

RATE = "org.apache.spark.sql.execution.streaming.sources.RateStreamProvider"


def run_to_memory(df: DataFrame, checkpoint: Path, name: str) -> Any:
    writer = write_stream(df).format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    return query


def test_each_source_has_a_numbered_place_in_the_checkpoint_in_the_order_of_the_plan(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    first, second = LineFiles(tmp_path / "first"), LineFiles(tmp_path / "second")
    first.add("a")
    second.add("b")
    both = first.stream(session).union(second.stream(session))
    run_to_memory(both, checkpoint, "two_sources")
    assert "/first/" in (checkpoint / "sources" / "0" / "0").read_text()
    assert "/second/" in (checkpoint / "sources" / "1" / "0").read_text()
    assert logged_offsets(checkpoint, 0) == [{"logOffset": 0}, {"logOffset": 0}]


def test_the_two_sides_of_a_union_of_a_stream_with_itself_share_a_source(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    stream = files.stream(session)
    query = run_to_memory(stream.union(stream), checkpoint, "self_union")
    assert column(session.table("self_union")) == ["a", "a"]
    assert [path.name for path in (checkpoint / "sources").iterdir()] == ["0"]
    progress = query.recentProgress[0]
    assert len(progress.sources) == 1
    assert progress.sources[0].numInputRows == 2


def test_the_two_sides_of_a_self_join_are_two_sources(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    stream = files.stream(session)
    joined = stream.alias("l").join(stream.alias("r"), F.expr("l.value = r.value"))
    query = run_to_memory(joined.select("l.value"), checkpoint, "self_join")
    assert column(session.table("self_join")) == ["a"]
    assert {path.name for path in (checkpoint / "sources").iterdir()} == {"0", "1"}
    assert len(query.recentProgress[0].sources) == 2


def test_a_source_without_new_data_gives_no_rows_and_keeps_its_offset(
    session: SparkSession, checkpoint: Path
) -> None:
    busy, idle = Numbers(2), Numbers(0)
    both = read_stream(busy, session).union(read_stream(idle, session))
    writer = write_stream(both).format("memory").queryName("one_idle")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    assert logged_offsets(checkpoint, 0) == [2, None]
    idle.available = 3
    query.processAllAvailable()
    assert logged_offsets(checkpoint, 1) == [2, 3]
    assert idle.asked_for == [(0, 3)]
    assert busy.asked_for == [(0, 2)]
    assert column(session.table("one_idle")) == [0, 0, 1, 1, 2]


def test_a_source_of_both_apis_is_read_by_the_second_and_says_so(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rows = session.readStream.format("rate").load()
    write_stream(rows).format("noop").trigger(once=True).start().awaitTermination()
    assert "Reading table [" in caplog.text
    assert "from DataSourceV2 named 'rate' [" in caplog.text


def test_a_source_of_the_first_api_says_so(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stream = LineFiles(tmp_path / "in").stream(session)
    write_stream(stream).format("noop").trigger(once=True).start().awaitTermination()
    assert "Using Source [FileStreamSource[file:" in caplog.text
    assert "from DataSourceV1 named 'FileSource[" in caplog.text
    assert "Finish initializing with logical plan" in caplog.text


def test_a_disabled_second_api_without_a_first_is_refused(session: SparkSession) -> None:
    session.conf.set("spark.sql.streaming.disabledV2MicroBatchReaders", f"another.Format , {RATE} ")
    writer = write_stream(session.readStream.format("rate").load()).format("noop")
    query = writer.trigger(once=True).start()
    with pytest.raises(StreamingQueryException, match="rate does not support microbatch"):
        query.awaitTermination()


def test_a_disabled_second_api_falls_back_to_the_first(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = LineFiles(tmp_path / "in")
    files.add("a")
    rate = session.readStream.format("rate").load()
    both = of_both_apis(session, rate, files.stream(session))
    session.conf.set("spark.sql.streaming.disabledV2MicroBatchReaders", RATE)
    query = write_stream(both).format("memory").queryName("fallback").start()
    query.processAllAvailable()
    assert column(session.table("fallback")) == ["a"]
    assert "Using Source [FileStreamSource[file:" in caplog.text
    assert "from DataSourceV2 named 'both' [" in caplog.text


def of_both_apis(session: SparkSession, second: DataFrame, first: DataFrame) -> DataFrame:
    """A stream with the V2 source of `second`, and the V1 source of `first` as a fallback."""
    jvm = Jvm.of(session)
    v1 = first._jdf.queryExecution().analyzed()
    v2 = second._jdf.queryExecution().analyzed()
    arguments = [v2.productElement(index) for index in range(v2.productArity())]
    arguments[1], arguments[4], arguments[7] = "both", v1.output(), jvm.some(v1)
    relation = jvm.cls("StreamingRelationV2")(*arguments)
    dataset = jvm.module("ClassicDataset").ofRows(session._jsparkSession, relation)
    return DataFrame(dataset, session)


def test_the_plan_is_bound_on_the_query_s_own_thread_only(session: SparkSession) -> None:
    from penstock.engine.triggers import ProcessingTimeTrigger
    from penstock.spark.sinks.sink_factory import SinkRequest
    from penstock.spark.start import StartRequest, open_query

    request = StartRequest(sink=SinkRequest("noop"), trigger=ProcessingTimeTrigger())
    execution = open_query(read_stream(Numbers(), session), request)
    with pytest.raises(WrongThreadError, match="logicalPlan must be initialized in"):
        _ = execution.logical_plan
    assert threading.current_thread() is threading.main_thread()


def test_the_current_time_of_a_batch_that_runs_again_is_the_same(
    session: SparkSession, checkpoint: Path
) -> None:
    stamped = read_stream(Numbers(1), session).select(
        F.current_timestamp().alias("now"),
        F.current_date().alias("today"),
        F.localtimestamp().alias("here"),
        (F.current_timestamp() + F.expr("INTERVAL 1 HOUR")).alias("later"),
    )
    seen: list[Any] = []
    writer = write_stream(stamped).foreachBatch(lambda df, _: seen.extend(df.collect()))
    writer.option("checkpointLocation", str(checkpoint))
    with pytest.raises(StreamingQueryException, match="before_commit_log"):
        write_struck(writer, FaultPoint.BEFORE_COMMIT_LOG, 0).start().awaitTermination()
    run_available(stamped, lambda df, _: seen.extend(df.collect()), checkpoint)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0].now.date() == seen[0].today


def test_a_filter_on_the_current_time_is_that_of_the_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    rows = read_stream(Numbers(2), session).where(F.current_timestamp() > F.lit("2020-01-01"))
    run_to_memory(rows, checkpoint, "after_2020")
    assert column(session.table("after_2020")) == [0, 1]
