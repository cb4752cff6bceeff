"""Reads the offsets of consumer groups."""

from __future__ import annotations

from functools import cache
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from tests.real.topics import SECONDS, Topics
from tests.streams import eventually


def committed(topics: Topics, group: str) -> dict[str, dict[int, int]]:
    """The offsets that a group has, as `kafka-consumer-groups` shows them."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.extend(group_offsets(topics, group))
        return bool(answers)

    eventually(is_answered, "an answer")
    found: dict[str, dict[int, int]] = {}
    for partition in answers[0].topic_partitions:
        found.setdefault(partition.topic, {})[partition.partition] = partition.offset
    return found


@cache
def admin_of(bootstrap_servers: str) -> AdminClient:
    """A client that is kept: destroying one right after an answer is a race in librdkafka."""
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def group_offsets(topics: Topics, group: str) -> list[Any]:
    """The broker's answer; none while it starts to coordinate groups."""
    admin = admin_of(topics.bootstrap_servers)
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    try:
        return [answer.result(SECONDS)]
    except KafkaException as exc:
        if "COORDINATOR" in exc.args[0].name():
            return []
        raise
