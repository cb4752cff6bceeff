"""Sinks of the differential suite on real servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.differential.sinks import WHOLE, Outlet, Rows, Sink
from tests.real.batch_table import BatchTable
from tests.real.postgres import PostgresServer
from tests.real.topics import Topics


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Spark's Kafka sink, into a topic named after the run.

    It delivers at least once: `rows` leaves out repeated records, `count` has all of them.
    """

    topics: Topics

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        if not self.topics.partitions(outlet.name):
            self.topics.create(outlet.name)
        writer = writer.format("kafka").option("topic", outlet.name)
        return writer.option("kafka.bootstrap.servers", self.topics.bootstrap_servers)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        found = {(record.key, record.value) for record in self.topics.read(outlet.name)}
        return {WHOLE: [{"key": key, "value": value} for key, value in sorted(found, key=repr)]}

    def count(self, outlet: Outlet) -> int:
        """The number of records in the topic, repeated ones included."""
        return len(self.topics.read(outlet.name))


@dataclass(frozen=True)
class PostgresSink(Sink):
    """`foreachBatch` into a table of PostgreSQL, once for each batch."""

    server: PostgresServer

    def table(self, outlet: Outlet) -> BatchTable:
        return BatchTable(self.server.url, self.server.jdbc_url, outlet.name)

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        table = self.table(outlet)
        table.create()
        return writer.foreachBatch(table.write)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        found: dict[int, Rows] = {}
        for batch, number, at in sorted(self.table(outlet).rows_with_batch()):
            found.setdefault(batch, []).append({"id": number, "at": at})
        return found
