"""The sinks of the programs, and how their output is read."""

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
"""Rows in a fixed order, independent of how they were computed."""

WHOLE = -1
"""Used as the batch id for sinks that do not separate batches."""


@dataclass
class Outlet:
    """The output of one run: its directory, and the rows that a `foreachBatch` function got."""

    session: SparkSession
    directory: Path
    name: str
    collected: dict[int, Rows] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)


class Sink(ABC):
    """A kind of sink."""

    @abstractmethod
    def attach(self, writer: Any, outlet: Outlet) -> Any:
        """Configure a writer of either engine to write to the sink."""

    @abstractmethod
    def start(self, writer: Any, outlet: Outlet) -> Any:
        """Start the query."""

    @abstractmethod
    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        """The rows in the sink by batch id, or under WHOLE."""


class CollectingSink(Sink):
    """`foreachBatch` into memory. A repeated batch must have the same rows."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        def collect(df: DataFrame, batch_id: int) -> None:
            rows = canonical(df.collect())
            if batch_id in outlet.collected:
                outlet.repeated.append(batch_id)
                assert outlet.collected[batch_id] == rows, f"batch {batch_id} has other rows"
            outlet.collected[batch_id] = rows

        return writer.foreachBatch(collect)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return outlet.collected


class MemorySink(Sink):
    """Spark's memory sink, a table named after the query."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format("memory").queryName(outlet.name)

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {WHOLE: canonical(outlet.session.table(outlet.name).collect())}


class NoopSink(Sink):
    """Spark's noop sink; only the progress has the number of rows."""

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format("noop")

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.start()

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {}


@dataclass(frozen=True)
class FileSink(Sink):
    """Spark's file sink, read batch by batch through its log."""

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
            # Read by path: through the log Spark would return all batches.
            reader = outlet.session.read.format(self.format).schema(self.schema)
            reader = reader.options(**self.options).option("basePath", str(outlet.directory))
            found[int(entry.name)] = canonical(reader.load(paths).collect()) if paths else []
        return found


@dataclass(frozen=True)
class TableSink(Sink):
    """`toTable` into a table that the query creates."""

    format: str = "parquet"

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        return writer.format(self.format).option("path", str(outlet.directory))

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.toTable(outlet.name)

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        return {WHOLE: canonical(outlet.session.table(outlet.name).collect())}


def canonical(rows: list[SparkRow]) -> Rows:
    """Rows as dicts, sorted, since the order of rows in a batch is not defined."""
    return sorted((row.asDict(recursive=True) for row in rows), key=repr)
