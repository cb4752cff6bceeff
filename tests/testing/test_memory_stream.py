"""The memory stream with several operators and triggers, and over restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

import penstock
from penstock import StreamingQueryException
from penstock.engine.read_limit import ALL_AVAILABLE, CompositeReadLimit, ReadMaxFiles, ReadMaxRows
from penstock.errors import InvalidBatchError
from penstock.testing import CollectSink, MemoryStream, StreamScript
from tests.streams import eventually, logged_offsets


def run_now(df: DataFrame, sink: CollectSink, checkpoint: Path, **options: Any) -> None:
    writer = penstock.write_stream(df).sink(sink).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).options(**options)
    writer.start().awaitTermination()


def test_every_form_of_a_row(session: SparkSession) -> None:
    stream = MemoryStream("n long, text string", session)
    with StreamScript(stream.to_df()) as script:
        assert stream.add_data([(1, "a"), Row(text="b", n=2), {"text": "c"}]) == 3
        assert stream.add_data([]) == 3
        script.step().expect_rows([(1, "a"), (2, "b"), {"n": None, "text": "c"}])
        script.expect_offsets(3).expect_progress(numInputRows=3)
        assert script.progress is not None
        assert script.progress.sources[0].description == "MemoryStream[n bigint, text string]"


def test_add_data_refuses_a_row_that_does_not_fit_the_schema(session: SparkSession) -> None:
    stream = MemoryStream(StructType([StructField("n", LongType(), False)]), session)
    for wrong in (["text"], [None], [(1, 2)]):
        with pytest.raises((PySparkException, ValueError, TypeError)):
            stream.add_data([1, *wrong])
    assert stream.report_latest_offset() == 0


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"rows_per_batch": 0}])
def test_partitions_and_rows_per_batch_must_be_at_least_1(
    session: SparkSession, wrong: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        MemoryStream("n long", session, **wrong)


def test_the_number_of_partitions(session: SparkSession) -> None:
    stream = MemoryStream("n long", session, 4)
    with StreamScript(stream.to_df().select(F.spark_partition_id().alias("p"))) as script:
        script.add(stream, range(8)).step().expect_rows([p for p in range(4) for _ in range(2)])


def test_available_now_in_limited_batches(session: SparkSession, checkpoint: Path) -> None:
    stream, sink = MemoryStream("n long", session, rows_per_batch=2), CollectSink()
    stream.add_data(range(5))
    run_now(stream.to_df(), sink, checkpoint)
    assert {n: len(rows) for n, rows in sink.batches.items()} == {0: 2, 1: 2, 2: 1}
    assert [logged_offsets(checkpoint, n) for n in range(3)] == [[2], [4], [5]]
    # The end that the trigger fixed does not apply to the next query.
    stream.add_data([5])
    run_now(stream.to_df(), sink, checkpoint)
    assert sink.batches[3] == [Row(n=5)]


def test_rows_added_while_available_now_runs_are_for_the_next_run(
    session: SparkSession, checkpoint: Path
) -> None:
    stream = MemoryStream("n long", session, rows_per_batch=1)
    stream.add_data([1, 2])
    seen: list[int] = []

    def add_more(df: DataFrame, batch_id: int) -> None:
        seen.extend(row.n for row in df.collect())
        stream.add_data([batch_id + 10])

    writer = penstock.write_stream(stream.to_df()).foreachBatch(add_more)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert seen == [1, 2]


def test_latest_offset_respects_the_read_limit() -> None:
    stream = MemoryStream.__new__(MemoryStream)
    stream._lock, stream._rows = threading.Lock(), [(n,) for n in range(9)]
    stream._available_now_end = None
    assert stream.latest_offset(2, ALL_AVAILABLE) == 9
    assert stream.latest_offset(2, ReadMaxRows(3)) == 5
    assert stream.latest_offset(2, CompositeReadLimit((ReadMaxFiles(1), ReadMaxRows(1)))) == 3
    assert stream.latest_offset(12, ReadMaxRows(1)) == 12


def test_a_restart_continues_after_the_last_batch(session: SparkSession) -> None:
    stream = MemoryStream("n long", session)
    with StreamScript(stream.to_df) as script:
        script.add(stream, [1, 2]).step().expect_rows([1, 2])
        script.restart().step().expect_nothing()
        script.add(stream, [3]).crash("after_offset_log").add(stream, [4])
        script.restart().step().expect_batch(1).expect_rows([3])
        script.step().expect_batch(2).expect_rows([4])


def test_a_checkpoint_of_another_memory_stream(session: SparkSession, checkpoint: Path) -> None:
    sink, stream = CollectSink(), MemoryStream("n long", session)
    stream.add_data([1, 2])
    run_now(stream.to_df(), sink, checkpoint)
    with pytest.raises(StreamingQueryException) as caught:
        run_now(MemoryStream("n long", session).to_df(), sink, checkpoint)
    assert isinstance(caught.value.__cause__, InvalidBatchError)
    assert "but only 0 rows were added" in str(caught.value)


def test_rows_added_from_many_threads(session: SparkSession) -> None:
    stream = MemoryStream("n long", session)
    threads = [threading.Thread(target=stream.add_data, args=([n, n],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with StreamScript(stream.to_df()) as script:
        script.step().expect_rows([n for n in range(8) for _ in range(2)])
        in_pairs = [row.n for row in script.rows]
    assert in_pairs[::2] == in_pairs[1::2]


def seconds(stream: MemoryStream) -> DataFrame:
    return (
        stream.to_df().withColumn("at", F.timestamp_seconds("t")).withWatermark("at", "0 seconds")
    )


def test_windows_and_watermarks(session: SparkSession) -> None:
    stream = MemoryStream("key string, t long", session)
    counts = seconds(stream).groupBy(F.window("at", "10 seconds"), "key").count()
    counts = counts.select(F.unix_seconds("window.start").alias("start"), "key", "count")
    with StreamScript(counts) as script:
        script.add(stream, [("a", 1), ("a", 2), ("b", 12)]).step()
        script.expect_rows([]).expect_watermark(0).expect_state_rows(2)
        script.step().expect_rows([(0, "a", 2)]).expect_watermark("1970-01-01T00:00:12.000Z")
        script.expect_state_rows(1).expect_progress(numInputRows=0)
        script.step().expect_nothing()
        script.add(stream, [("late", 3), ("b", 25)]).restart().run()
        script.expect_rows([(10, "b", 1)])


def test_a_join_with_itself_and_with_another_stream(session: SparkSession) -> None:
    left = MemoryStream("key string, t long", session)
    right = MemoryStream("key2 string, price long", session)
    once = left.to_df()
    itself = once.alias("l").join(once.alias("r"), F.expr("l.key = r.key AND l.t < r.t"))
    itself = itself.select("l.key", "l.t", "r.t")
    with StreamScript(itself) as script:
        script.add(left, [("a", 1)]).step().expect_rows([])
        script.add(left, [("a", 2), ("b", 1)]).step().expect_rows([("a", 1, 2)])
    other = left.to_df().join(right.to_df(), F.expr("key = key2")).select("key", "t", "price")
    with StreamScript(other) as script:
        script.add(right, [("b", 5)]).step().expect_rows([("b", 1, 5)]).expect_offsets(3, 1)
        # Before Spark 4.3 the optimizer drops IsNotNull on an empty side, and the state is refused.
        script.add(left, [("b", 2)]).add(right, [("c", 6)])
        script.restart().step().expect_rows([("b", 2, 5)])


def test_drop_duplicates(session: SparkSession) -> None:
    stream = MemoryStream("key string", session)
    with StreamScript(stream.to_df().dropDuplicates(["key"])) as script:
        script.add(stream, ["a", "a"]).step().expect_rows(["a"]).expect_state_rows(1)
        script.add(stream, ["a", "b"]).restart().step().expect_rows(["b"]).expect_state_rows(2)


def test_two_queries_read_all_rows(session: SparkSession) -> None:
    stream = MemoryStream("n long", session)
    with StreamScript(stream.to_df()) as first, StreamScript(stream.to_df()) as second:
        first.add(stream, [1, 2]).step().expect_rows([1, 2])
        second.add(stream, [3]).step().expect_rows([1, 2, 3])
        first.step().expect_rows([3])


def test_new_data_wakes_a_waiting_query(session: SparkSession) -> None:
    patient = session.newSession()
    patient.conf.set("spark.sql.streaming.pollingDelay", "10m")
    stream, sink = MemoryStream("n long", patient), CollectSink()

    def has_rows(count: int) -> Callable[[], bool]:
        return lambda: len(sink.rows) == count

    query = penstock.write_stream(stream.to_df()).sink(sink).start()
    try:
        query.processAllAvailable()
        for count in (1, 2, 3):
            stream.add_data([count])
            eventually(has_rows(count), f"row {count}")
    finally:
        query.stop()
