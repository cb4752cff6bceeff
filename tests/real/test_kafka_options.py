"""Options of the Kafka source: both engines give the same batches, offsets and progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.differential.runs import Engine
from tests.real.both import Both, read_kafka
from tests.real.topics import Record, Topics, new_name
from tests.streams import eventually

NOON = 1_767_268_800_000


def numbered(first: int, count: int, partitions: int = 2) -> list[Record]:
    """Records whose values are numbers, distributed over the partitions."""
    return [Record(f"{n:03d}", partition=n % partitions) for n in range(first, first + count)]


def values(first: int, count: int) -> list[str]:
    return [record.value for record in numbered(first, count)]


def test_subscribe_reads_several_topics(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    other = new_name("other")
    topics.create(other)
    topics.write(topic, numbered(0, 6))
    topics.write(other, ["a", "b"])
    both = Both(spark, tmp_path, topics, {"subscribe": f"{topic},{other}"})
    both.go()
    topics.write(other, ["c"])
    both.go()
    assert both.values == sorted([*values(0, 6), "a", "b", "c"])
    assert both.batches[1] == ["c"]


def test_subscribe_pattern_finds_a_topic_that_is_created_later(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    family = new_name("family")
    topics.create(f"{family}-1")
    topics.write(f"{family}-1", ["a"])
    both = Both(spark, tmp_path, topics, {"subscribePattern": f"{family}-.*"})
    both.go()
    topics.create(f"{family}-2", 2)
    topics.write(f"{family}-2", numbered(0, 4))
    both.go()
    assert both.batches == {0: ["a"], 1: values(0, 4)}


def test_assign_reads_only_the_partitions_that_it_names(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 6))
    both = Both(spark, tmp_path, topics, {"assign": json.dumps({topic: [1]})})
    both.go()
    assert both.values == ["001", "003", "005"]


def test_starting_offsets_of_each_partition(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 10))
    starts = json.dumps({topic: {"0": 3, "1": -2}})
    both = Both(spark, tmp_path, topics, {"subscribe": topic, "startingOffsets": starts})
    both.go()
    assert both.values == sorted(["006", "008", "001", "003", "005", "007", "009"])


def test_starting_offsets_latest_reads_what_comes_after_the_first_start(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 4))
    both = Both(spark, tmp_path, topics, {"subscribe": topic, "startingOffsets": "latest"})
    both.go()
    topics.write(topic, numbered(4, 4))
    both.go()
    assert both.values == values(4, 4)


@pytest.mark.parametrize("per_partition", [False, True])
def test_starting_timestamps(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path, per_partition: bool
) -> None:
    hours = [
        Record(f"{hour}:{partition}", partition=partition, timestamp_ms=NOON + hour * 3_600_000)
        for hour in range(4)
        for partition in (0, 1)
    ]
    topics.write(topic, hours)
    second, third = NOON + 2 * 3_600_000, NOON + 3 * 3_600_000
    option: dict[str, object] = {"startingTimestamp": second}
    if per_partition:
        starts = json.dumps({topic: {"0": second, "1": third}})
        option = {"startingOffsetsByTimestamp": starts}
    both = Both(spark, tmp_path, topics, {"subscribe": topic, **option})
    both.go()
    assert both.values == (["2:0", "3:0", "3:1"] if per_partition else ["2:0", "2:1", "3:0", "3:1"])


def test_max_offsets_per_trigger_bounds_every_batch(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 25))
    both = Both(spark, tmp_path, topics, {"subscribe": topic, "maxOffsetsPerTrigger": 10})
    both.go()
    assert both.values == values(0, 25)
    assert len(both.batches) >= 3
    assert max(map(len, both.batches.values())) <= 10


def test_min_partitions_splits_the_partitions_of_a_topic(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 40))
    options = {"subscribe": topic, "minPartitions": 6}
    columns = ["CAST(value AS STRING) AS value", "spark_partition_id() AS task"]
    both = Both(spark, tmp_path, topics, options, columns)
    both.go()
    assert both.values == values(0, 40)
    assert len({row["task"] for row in both.rows}) >= 6


def test_headers(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path) -> None:
    traced = Record("a", headers=(("trace", "1"), ("trace", "2")))
    topics.write(topic, [traced, Record("b", partition=1)])
    options = {"subscribe": topic, "includeHeaders": "true"}
    both = Both(spark, tmp_path, topics, options, ["CAST(value AS STRING) AS value", "headers"])
    both.go()
    headers = {row["value"]: row["headers"] for row in both.rows}
    assert [(h["key"], bytes(h["value"])) for h in headers["a"]] == [
        ("trace", b"1"),
        ("trace", b"2"),
    ]
    assert not headers["b"]


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, numbered(0, 4))
    both = Both(spark, tmp_path, topics, {"subscribe": topic, "maxOffsetsPerTrigger": 6})
    both.go()
    topics.add_partitions(topic, 4)
    topics.write(topic, numbered(4, 12, partitions=4))
    both.go()
    assert both.values == values(0, 16)
    assert {row["partition"] for row in both.rows} == {0, 1, 2, 3}


def test_aborted_transactions_are_not_read(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    topics.write_transaction(topic, numbered(0, 6))
    topics.write_transaction(topic, numbered(100, 6), commit=False)
    both = Both(spark, tmp_path, topics, options)
    both.go()
    topics.write_transaction(topic, numbered(200, 3), commit=False)
    topics.write_transaction(topic, numbered(6, 6))
    both.go()
    assert both.values == values(0, 12)


def test_a_batch_of_aborted_records_only_is_empty(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    topics.write_transaction(topic, numbered(0, 6), commit=False)
    both = Both(spark, tmp_path, topics, options)
    both.go()
    assert both.batches == {0: []}


@pytest.mark.parametrize("engine", Engine)
def test_min_offsets_per_trigger_waits_for_that_many_records(
    engine: Engine, spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "minOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    rows: dict[int, list[str]] = {}
    topics.write(topic, numbered(0, 4))
    query = _start(engine, read_kafka(spark, topics, options), rows, tmp_path)
    try:
        eventually(lambda: rows == {0: values(0, 4)}, "the first batch, which never waits")
        topics.write(topic, numbered(4, 6))
        query.processAllAvailable()
        assert list(rows) == [0]
        topics.write(topic, numbered(10, 4))
        eventually(lambda: rows.get(1) == values(4, 10), "the batch of ten records")
    finally:
        query.stop()


@pytest.mark.parametrize("engine", Engine)
def test_max_trigger_delay_ends_the_wait(
    engine: Engine, spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "minOffsetsPerTrigger": 1000, "maxTriggerDelay": "2s"}
    rows: dict[int, list[str]] = {}
    query = _start(engine, read_kafka(spark, topics, options), rows, tmp_path)
    try:
        topics.write(topic, numbered(0, 4))
        eventually(lambda: 0 in rows, "the first batch")
        topics.write(topic, numbered(4, 6))
        eventually(lambda: sum(map(len, rows.values())) == 10, "all records")
        assert sorted(value for batch in rows.values() for value in batch) == values(0, 10)
    finally:
        query.stop()


def _start(engine: Engine, df: DataFrame, rows: dict[int, list[str]], root: Path) -> Any:
    """Start a query that collects the values of the records by batch."""

    def collect(batch: DataFrame, batch_id: int) -> None:
        rows[batch_id] = sorted(row["value"] for row in batch.collect())

    writer = engine.writer(df).option("checkpointLocation", str(root / "checkpoint"))
    return writer.foreachBatch(collect).trigger(processingTime="50 milliseconds").start()
