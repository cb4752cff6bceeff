"""The offsets of committed batches in a Kafka consumer group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

import penstock
from penstock import write_stream
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.sources import kafka_groups
from tests.real.both import read_kafka
from tests.real.groups import admin_of, committed
from tests.real.kafka import KafkaBroker
from tests.real.topics import SECONDS, Record, Topics, new_name
from tests.streams import eventually, has_committed

LOGGER = "penstock.spark.sources.kafka_groups"


def numbered(first: int, count: int) -> list[Record]:
    return [Record(str(n), partition=n % 2) for n in range(first, first + count)]


def logged_ends(checkpoint: Path) -> dict[str, dict[int, int]]:
    """The end offsets of the newest committed batch of a checkpoint."""
    newest = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdecimal())
    ends: dict[str, dict[int, int]] = {}
    for line in (checkpoint / "offsets" / str(newest)).read_text().splitlines()[2:]:
        for topic, partitions in json.loads(line).items():
            ends.setdefault(topic, {}).update({int(p): offset for p, offset in partitions.items()})
    return ends


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == LOGGER and r.levelno >= 30]


def writer_of(
    spark: SparkSession, topics: Topics, topic: str, group: str, **options: Any
) -> penstock.DataStreamWriter:
    df = read_kafka(spark, topics, {"subscribe": topic, **options})
    return write_stream(df).format("noop").option("kafkaConsumerGroup", group)


def test_a_group_has_the_offsets_of_the_last_batch(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 10))
    writer = writer_of(spark, topics, topic, group, maxOffsetsPerTrigger="4")
    writer.trigger(availableNow=True).start(checkpointLocation=str(tmp_path)).awaitTermination()
    assert committed(topics, group) == logged_ends(tmp_path) == {topic: {0: 5, 1: 5}}


def test_a_group_follows_a_running_query(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 2))
    query = writer_of(spark, topics, topic, group).start(checkpointLocation=str(tmp_path))
    try:
        eventually(lambda: committed(topics, group) == {topic: {0: 1, 1: 1}}, "the first commit")
        topics.write(topic, numbered(2, 3))
        eventually(lambda: committed(topics, group) == {topic: {0: 3, 1: 2}}, "the second commit")
        topics.add_partitions(topic, 3)
        topics.write(topic, [Record("new", partition=2)])
        expected = {topic: {0: 3, 1: 2, 2: 1}}
        eventually(lambda: committed(topics, group) == expected, "the new partition")
    finally:
        query.stop()


def test_an_unchanged_program_reports_too(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 6))
    df = read_kafka(spark, topics, {"subscribe": topic})
    penstock.install()
    try:
        writer = df.writeStream.format("noop").option("kafkaConsumerGroup", group)
        writer = writer.trigger(availableNow=True)
        writer.start(checkpointLocation=str(tmp_path)).awaitTermination()
    finally:
        penstock.uninstall()
    assert committed(topics, group) == {topic: {0: 3, 1: 3}}


def test_several_sources_share_a_group(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    """Two sources that read the same partitions count as the slower one."""
    group, other = new_name("group"), new_name("other")
    topics.create(other)
    topics.write(topic, numbered(0, 6))
    topics.write(other, ["a"])
    starts = json.dumps({topic: {"0": 1, "1": 1}})
    sources = [
        read_kafka(spark, topics, {"subscribe": f"{topic},{other}"}),
        read_kafka(
            spark,
            topics,
            {"subscribe": topic, "startingOffsets": starts, "maxOffsetsPerTrigger": "2"},
        ),
    ]
    df = sources[0].union(sources[1])
    writer = write_stream(df).format("noop").option("kafkaConsumerGroup", group).stepped()
    query = writer.start(checkpointLocation=str(tmp_path))
    query.step()
    query.stop()
    assert committed(topics, group) == {topic: {0: 2, 1: 2}, other: {0: 1}}
    writer = write_stream(df).format("noop").option("kafkaConsumerGroup", group)
    writer.trigger(availableNow=True).start(checkpointLocation=str(tmp_path)).awaitTermination()
    assert committed(topics, group) == {topic: {0: 3, 1: 3}, other: {0: 1}}


def test_the_group_is_never_read_back(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 4))
    writer = writer_of(spark, topics, topic, group)
    writer.trigger(availableNow=True).start(checkpointLocation=str(tmp_path)).awaitTermination()
    rows: list[Any] = []
    topics.write(topic, numbered(4, 2))
    df = read_kafka(spark, topics, {"subscribe": topic, "kafka.group.id": group})
    query = write_stream(df).option("kafkaConsumerGroup", group).trigger(availableNow=True)
    query.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    query.start(checkpointLocation=str(tmp_path / "new")).awaitTermination()
    assert len(rows) == 6
    assert committed(topics, group) == {topic: {0: 3, 1: 3}}


def test_a_group_that_a_consumer_uses_is_a_warning(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 10))
    consumer = Consumer({"bootstrap.servers": topics.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    try:
        eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1], "an assignment")
        writer = writer_of(spark, topics, topic, group, maxOffsetsPerTrigger="2")
        query = writer.trigger(availableNow=True).start(checkpointLocation=str(tmp_path))
        query.awaitTermination()
        assert query.exception() is None
        assert logged_ends(tmp_path) == {topic: {0: 5, 1: 5}}
    finally:
        consumer.close()
    (warning,) = warnings(caplog)
    assert f"were not committed to the Kafka consumer group {group}" in warning
    assert "Consumers use this group: choose another one" in warning


def test_a_broker_that_is_down_is_a_warning(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    own_broker: KafkaBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two sources on two brokers one is stopped; the group of the other has its offsets.

    The stopped one is committed when it is back, without another batch.
    """
    monkeypatch.setattr(kafka_groups, "_COMMIT_SECONDS", 2.0)
    monkeypatch.setattr(kafka_groups, "_RETRY_SECONDS", 0.5)
    group = new_name("group")
    others = Topics(own_broker.bootstrap_servers)
    others.create(topic)
    topics.write(topic, numbered(0, 4))
    others.write(topic, ["a"])
    df = read_kafka(spark, topics, {"subscribe": topic}).union(
        read_kafka(spark, others, {"subscribe": topic})
    )
    ran: list[int] = []

    def stop_broker(batch: Any, batch_id: int) -> None:
        ran.append(batch.count())
        own_broker.kill()

    writer = write_stream(df).option("kafkaConsumerGroup", group).foreachBatch(stop_broker)
    query = writer.trigger(processingTime="1 hour").start(checkpointLocation=str(tmp_path))
    try:
        eventually(lambda: warnings(caplog), "a warning")
        assert query.isActive
        assert ran == [5]
        assert committed(topics, group) == {topic: {0: 2, 1: 2}}
        own_broker.start()
        eventually(lambda: committed(others, group) == {topic: {0: 1}}, "the commit after all")
        assert query.isActive
    finally:
        query.stop()
    assert len({warning.split("again. ")[1].split(":")[0] for warning in warnings(caplog)}) == len(
        warnings(caplog)
    )


class BrokerWithAcls(KafkaBroker):
    """A broker that allows everything that no ACL denies."""

    def _format(self) -> None:
        super()._format()
        with self._properties.open("a") as properties:
            properties.write(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
                "allow.everyone.if.no.acl.found=true\n"
            )


def test_a_group_without_permission_is_a_warning(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group, topic = new_name("group"), new_name("topic")
    broker = BrokerWithAcls(tmp_path / "kafka")
    broker.start()
    try:
        topics = Topics(broker.bootstrap_servers)
        topics.create(topic, 2)
        topics.write(topic, numbered(0, 10))
        deny_reading(topics, group)
        writer = writer_of(spark, topics, topic, group, maxOffsetsPerTrigger="2")
        checkpoint = tmp_path / "checkpoint"
        query = writer.trigger(availableNow=True).start(checkpointLocation=str(checkpoint))
        query.awaitTermination()
        assert logged_ends(checkpoint) == {topic: {0: 5, 1: 5}}
    finally:
        broker.stop()
    (warning,) = warnings(caplog)
    assert "GroupAuthorizationException" in warning
    assert "needs the permission READ on the group" in warning


def deny_reading(topics: Topics, group: str) -> None:
    """Deny everyone to commit offsets to a group."""
    acl = AclBinding(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    admin = admin_of(topics.bootstrap_servers)
    for answer in admin.create_acls([acl]).values():
        answer.result(SECONDS)


def test_a_query_without_kafka_is_told_that_the_option_has_no_effect(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    df = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = write_stream(df).format("noop").option("kafkaConsumerGroup", "g").stepped()
    query = writer.start(checkpointLocation=str(tmp_path))
    query.step()
    query.step()
    query.stop()
    assert warnings(caplog) == [
        "The option kafkaConsumerGroup has no effect: the query has no Kafka source."
    ]


def test_the_client_is_closed_at_the_end(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    group = new_name("group")
    topics.write(topic, numbered(0, 4))
    query = writer_of(spark, topics, topic, group, **{"kafka.client.id": group}).start(
        checkpointLocation=str(tmp_path)
    )
    has_committed(query, 0)
    eventually(lambda: committed(topics, group), "the commit")
    before = admin_threads(spark, group)
    query.stop()
    assert before > admin_threads(spark, group) == 0


def admin_threads(spark: SparkSession, client_id: str) -> int:
    """The number of threads of Kafka's admin clients with this id in the JVM."""
    threads = Jvm.of(spark).cls("java.lang.Thread").getAllStackTraces().keySet()
    names = [str(thread.getName()) for thread in threads]
    return sum("kafka-admin-client-thread" in name and client_id in name for name in names)
