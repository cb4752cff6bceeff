"""What the Kafka source cannot read: a topic that was replaced, a broker that is down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock import write_stream
from penstock.api.restart import RestartingQuery
from tests.differential.runs import Engine, Run
from tests.real.both import Both, read_kafka
from tests.real.kafka import KafkaBroker
from tests.real.topics import Topics, new_name
from tests.streams import eventually

QUICKLY = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10"}
"""So that the source does not wait seconds for offsets that will not come back."""


@pytest.fixture
def read_and_replaced(topics: Topics) -> Any:
    """A function: run a query over six records, then replace the topic by one with others."""

    def prepare(both: Both, topic: str, count: int) -> None:
        topics.create(topic)
        topics.write(topic, [f"old {n}" for n in range(6)])
        both.go()
        topics.delete(topic)
        topics.create(topic)
        topics.write(topic, [f"new {n}" for n in range(count)])

    return prepare


def failure(run: Run, engine: Engine) -> str:
    """The error with which a round fails: its condition, if it has one, or its first line."""
    with pytest.raises(StreamingQueryException, match="failOnDataLoss") as raised:
        run.run_round(engine)
    [told] = re.findall(r" terminated with exception: (\[\w+\]|.*)", str(raised.value))
    return str(told)


@pytest.mark.parametrize("count", [2, 9])
def test_a_topic_that_was_replaced_is_read_on_from_the_same_offset_without_fail_on_data_loss(
    spark: SparkSession, topics: Topics, tmp_path: Path, read_and_replaced: Any, count: int
) -> None:
    topic = new_name("replaced")
    options = {"subscribe": topic, "failOnDataLoss": "false", **QUICKLY}
    both = Both(spark, tmp_path, topics, options)
    read_and_replaced(both, topic, count)
    both.go()
    topics.write(topic, ["last"])
    both.go()
    old = [f"old {n}" for n in range(6)]
    assert both.values == sorted([*old, *(f"new {n}" for n in range(6, count)), "last"])


def test_a_topic_that_was_replaced_by_a_shorter_one_fails_the_query(
    spark: SparkSession, topics: Topics, tmp_path: Path, read_and_replaced: Any
) -> None:
    topic = new_name("replaced")
    both = Both(spark, tmp_path, topics, {"subscribe": topic, **QUICKLY})
    read_and_replaced(both, topic, 2)
    failures = {engine: failure(run, engine) for engine, run in both.runs.items()}
    assert failures[Engine.PENSTOCK] == failures[Engine.SPARK]
    assert failures[Engine.PENSTOCK].startswith("Some data may have been lost")
    logs = {engine: sorted(run.log("offsets")) for engine, run in both.runs.items()}
    assert logs[Engine.PENSTOCK] == logs[Engine.SPARK] == [0, 1]
    for run in both.runs.values():
        assert list(run.log("commits")) == [0]


def test_records_that_retention_has_removed_fail_the_query_or_are_left_out(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = new_name("expired")
    topics.create(topic)
    topics.write(topic, ["0", "1"])
    strict = Both(spark, tmp_path / "strict", topics, {"subscribe": topic})
    lax = Both(spark, tmp_path / "lax", topics, {"subscribe": topic, "failOnDataLoss": "false"})
    strict.go()
    lax.go()
    topics.write(topic, ["2", "3", "4"])
    topics.delete_records(topic, {0: 4})
    failures = {engine: failure(run, engine) for engine, run in strict.runs.items()}
    assert failures[Engine.PENSTOCK] == failures[Engine.SPARK]
    lax.go()
    assert lax.values == ["0", "1", "4"]


def test_a_query_goes_on_when_the_broker_is_back(
    spark: SparkSession, own_broker: KafkaBroker, tmp_path: Path
) -> None:
    topics = Topics(own_broker.bootstrap_servers)
    topics.create("clicks", 2)
    sent = [f"{n:03d}" for n in range(30)]
    topics.write("clicks", sent)
    rows: dict[int, list[str]] = {}

    def collect(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and own_broker.is_running and 1 not in rows:
            rows[1] = []
            own_broker.kill()
        rows[batch_id] = sorted(row["value"] for row in batch.collect())

    options = {
        "subscribe": "clicks",
        "maxOffsetsPerTrigger": 10,
        "kafkaConsumer.pollTimeoutMs": 3000,
        "kafka.request.timeout.ms": 2000,
        "kafka.default.api.timeout.ms": 3000,
        **QUICKLY,
    }
    writer = write_stream(read_kafka(spark, topics, options)).foreachBatch(collect)
    writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds")
    query = writer.restart(backoff=0.5, max_backoff=1, max_restarts=1000).start()
    assert isinstance(query, RestartingQuery)
    try:
        eventually(lambda: query.restarts >= 1, "a restart")
        assert query.isActive
        own_broker.start()
        topics.write("clicks", ["last"])
        eventually(lambda: sum(map(len, rows.values())) == 31, "all records")
    finally:
        query.stop()
    assert sorted(value for batch in rows.values() for value in batch) == [*sent, "last"]
    assert sorted(rows) == list(range(len(rows)))
