"""The size of batches of a Kafka source: `pace()` and `WhenBacklog`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import WhenBacklog, write_stream
from penstock.testing import ManualClock
from tests.real.both import read_kafka
from tests.real.topics import SECONDS, Record, Topics


def numbered(count: int) -> list[Record]:
    return [Record(str(n), partition=n % 2) for n in range(count)]


@pytest.mark.parametrize(
    ("options", "sizes", "reasons"),
    [
        ({}, [1000, 4000, 10_000, 10_000, 1000, 1000], ["start", "grow", "grow", "hold"]),
        (
            {"maxOffsetsPerTrigger": "3000"},
            [1000, 3000, 3000, 3000, 1000],
            ["start", "at the job's limit", "at the job's limit", "at the job's limit"],
        ),
        (
            {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"},
            [1000, 4000, 10_000, 10_000, 1000],
            ["start", "grow", "grow", "hold"],
        ),
    ],
    ids=["no limit", "a limit of the job", "a smallest batch"],
)
def test_the_records_of_a_batch_follow_its_duration(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    options: dict[str, str],
    sizes: list[int],
    reasons: list[str],
) -> None:
    topics.write(topic, numbered(28_000))
    clock = ManualClock(0)

    def take(df: DataFrame, batch_id: int) -> None:
        clock.advance(df.count() / (1000 if batch_id < 3 else 100))

    df = read_kafka(spark, topics, {"subscribe": topic, **options})
    writer = write_stream(df).pace("10 seconds").clock(clock).foreachBatch(take)
    query = writer.start()
    query.stop_after(batches=len(sizes))
    query.awaitTermination()
    records: list[Any] = [record for record in query.recentProgress if record.numInputRows]
    assert [record.numInputRows for record in records] == sizes
    metrics = [record.sources[0].metrics for record in records]
    assert [one["paceReason"] for one in metrics][:4] == reasons
    assert {one["paceUnit"] for one in metrics} == {"rows"}


def test_a_query_waits_for_a_backlog_of_records(
    spark: SparkSession, topics: Topics, topic: str
) -> None:
    batches: list[int] = []
    changed = threading.Condition()

    def take(df: DataFrame, batch_id: int) -> None:
        rows = df.count()
        with changed:
            batches.append(rows)
            changed.notify_all()

    def wait_for(expected: list[int]) -> None:
        with changed:
            assert changed.wait_for(lambda: batches == expected, SECONDS), batches

    topics.write(topic, numbered(4))
    clock = ManualClock(0)
    df = read_kafka(spark, topics, {"subscribe": topic})
    writer = write_stream(df).trigger(WhenBacklog(rows=10, or_after="1 minute")).clock(clock)
    query = writer.foreachBatch(take).start()
    try:
        seen = threading.Event()
        query._execution.reporter.observe(lambda progress: seen.set())
        clock.advance(20)  # more than the interval of idle events
        assert seen.wait(SECONDS)
        assert batches == []
        topics.write(topic, numbered(6))
        wait_for([10])
        topics.write(topic, numbered(3))
        clock.advance(59)
        ticks = 0
        with changed:
            # The time counts from when the query has found the records.
            while not changed.wait_for(lambda: batches == [10, 3], 1) and ticks < SECONDS:
                ticks += 1
                clock.advance(61)
        assert batches == [10, 3]
    finally:
        query.stop()
