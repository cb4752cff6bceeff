"""Creates topics on a broker, writes records to them and reads them, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.real.servers import wait_until

SECONDS = 60.0


@dataclass(frozen=True)
class Record:
    """A record to write or one that was read. `timestamp_ms` is set by the client if None."""

    value: str
    key: str | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    offset: int = field(default=-1, compare=False)


class Topics:
    """The topics of a broker. Every call waits until the broker has done what it asks for."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._client = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = AdminClient(self._client)

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic, with settings such as `retention_ms`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self._finish(self._admin.create_topics([topic]))
        self._expect(lambda: self.partitions(name) == partitions, f"{name} to be there")

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the number of partitions to `total`."""
        self._finish(self._admin.create_partitions([NewPartitions(name, total)]))
        self._expect(lambda: self.partitions(name) == total, f"{total} partitions of {name}")

    def delete(self, name: str) -> None:
        self._finish(self._admin.delete_topics([name]))
        self._expect(lambda: self.partitions(name) == 0, f"{name} to be gone")

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Remove the records of each partition before an offset, as retention does."""
        ends = [TopicPartition(name, partition, offset) for partition, offset in before.items()]
        self._finish(self._admin.delete_records(ends))

    def partitions(self, name: str) -> int:
        """The number of partitions of a topic; 0 if there is no such topic."""
        found = self._admin.list_topics(timeout=SECONDS).topics.get(name)
        return 0 if found is None or found.error else len(found.partitions)

    def write(self, name: str, records: Iterable[Record | str]) -> None:
        """Write records and wait until the broker has them. A string is the value of a record."""
        with_errors: list[Any] = []
        producer = Producer({**self._client, "linger.ms": 0})
        for record in records:
            produce(producer, name, as_record(record), with_errors)
        _flush(producer, with_errors)

    def write_transaction(
        self, name: str, records: Sequence[Record | str], *, commit: bool = True
    ) -> None:
        """Write records in one transaction, and commit or abort it."""
        with_errors: list[Any] = []
        producer = Producer({**self._client, "transactional.id": str(uuid.uuid4())})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for record in records:
            produce(producer, name, as_record(record), with_errors)
        _flush(producer, with_errors)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)

    def ends(self, name: str) -> dict[int, int]:
        """The offset after the last record of each partition."""
        consumer = self._consumer()
        try:
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(name, partition), timeout=SECONDS
                )[1]
                for partition in range(self.partitions(name))
            }
        finally:
            consumer.close()

    def read(self, name: str) -> list[Record]:
        """The committed records that a topic has now, by partition and offset."""
        ends = self.ends(name)
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(name, p, OFFSET_BEGINNING) for p in ends])
            found: list[Record] = []
            pending = {partition for partition, end in ends.items() if end > 0}
            while pending:
                message = consumer.poll(SECONDS)
                if message is None:
                    raise TimeoutError(f"no answer from the broker for partitions {pending}")
                if message.error() is not None:
                    if message.error().name() == "_PARTITION_EOF":
                        pending.discard(message.partition())
                        continue
                    raise KafkaException(message.error())
                if message.offset() < ends[message.partition()]:
                    found.append(_record_of(message))
            return sorted(found, key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self._client,
                "group.id": str(uuid.uuid4()),
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )

    def _finish(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(SECONDS)

    def _expect(self, condition: Any, what: str) -> None:
        if not wait_until(condition, SECONDS):
            raise TimeoutError(f"waited {SECONDS:g} s for {what}")


def new_name(prefix: str) -> str:
    """A name for a topic or a table that nothing else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def as_record(record: Record | str) -> Record:
    return Record(record) if isinstance(record, str) else record


def produce(producer: Producer, topic: str, record: Record, errors: list[Any]) -> None:
    """Hand a record to a producer; an error of its delivery is added to `errors`."""

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    producer.produce(
        topic,
        value=record.value,
        key=record.key,
        partition=record.partition,
        headers=[(name, value.encode()) for name, value in record.headers],
        on_delivery=delivered,
        **({} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}),
    )
    producer.poll(0)


def _flush(producer: Producer, errors: list[Any]) -> None:
    left = producer.flush(SECONDS)
    if left or errors:
        raise KafkaException(f"{left} records were not delivered: {errors[:3]}")


def _record_of(message: Any) -> Record:
    key = message.key()
    return Record(
        message.value().decode(),
        None if key is None else key.decode(),
        message.partition(),
        message.timestamp()[1],
        tuple((name, value.decode()) for name, value in message.headers() or ()),
        message.offset(),
    )
