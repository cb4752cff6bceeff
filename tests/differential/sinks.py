"""The sinks that programs write to, and how what they took is read back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

Rows = list[dict[str, Any]]
"""Rows in an order that does not depend on how they were computed."""

WHOLE = -1
"""Stands for a batch id where a sink does not tell batches apart."""


@dataclass
class Outlet:
    """The sink's end of one run: where it writes, and what a function sink was handed."""

    session: SparkSession
    directory: Path
    name: str
    collected: dict[int, Rows] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)


class Sink(ABC):
    """A kind of sink."""

    @abstractmethod
    def attach(self, writer: Any, outlet: Outlet) -> Any:
        """Point a writer, of either engine, at the sink; started it writes there."""

    @abstractmethod
    def start(self, writer: Any, outlet: Outlet) -> Any:
        """Start the query."""

    @abstractmethod
    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        """What the sink has, by batch id, or under WHOLE."""


class CollectingSink(Sink):
    """foreachBatch into memory. A batch that comes again must bring the same rows."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        def collect(df: DataFrame, batch_id: int) -> None:
            rows = canonical(df.collect())
            if batch_id in outlet.collected:
                outlet.repeated.append(batch_id)
                assert outlet.collected[batch_id] == rows, f"batch {batch_id} came with other rows"
            outlet.collected[batch_id] = rows

        return writer.foreachBatch(collect)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return outlet.collected


class MemorySink(Sink):
    """Spark's memory sink, which becomes a table named after the query."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format("memory").queryName(outlet.name)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {WHOLE: canonical(outlet.session.table(outlet.name).collect())}


class NoopSink(Sink):
    """Takes everything and keeps nothing; its progress still counts the rows."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format("noop")

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {}


@dataclass(frozen=True)
class FileSink(Sink):
    """Spark's file sink, read back batch by batch through its own log."""

    format: str
    schema: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        writer = writer.format(self.format).options(**self.options)
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start(str(outlet.directory))

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        found: dict[int, Rows] = {}
        for entry in sorted((outlet.directory / "_spark_metadata").glob("[0-9]*")):
            lines = entry.read_text().splitlines()[1:]
            paths = [json.loads(line)["path"] for line in lines]
            # Read without the log, which would answer for all batches at once.
            reader = outlet.session.read.format(self.format).schema(self.schema)
            reader = reader.options(**self.options).option("basePath", str(outlet.directory))
            found[int(entry.name)] = canonical(reader.load(paths).collect()) if paths else []
        return found


@dataclass(frozen=True)
class TableSink(Sink):
    """`toTable`, into a table that the query makes."""

    format: str = "parquet"

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format(self.format).option("path", str(outlet.directory))

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.toTable(outlet.name)

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {WHOLE: canonical(outlet.session.table(outlet.name).collect())}


def canonical(rows: list[SparkRow]) -> Rows:
    """Rows as plain values, sorted: the order of rows in a batch is nobody's promise."""
    return sorted((row.asDict(recursive=True) for row in rows), key=repr)
