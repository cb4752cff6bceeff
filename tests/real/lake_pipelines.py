"""The pipelines into Delta and Iceberg tables that are killed, with their expected output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.crash.pipelines import Rows, stateless
from tests.real.delta_log import current_rows
from tests.real.feed import Feed
from tests.real.lake_feed import LakeFeed
from tests.real.lakehouses import ICEBERG_CATALOG
from tests.real.pipelines import Input

AT_MOST_RECORDS = 400
AT_MOST_FILES = 20
GROUPS = 10


@dataclass(frozen=True)
class Lakehouse:
    """How tables of Delta, by their path, or of Iceberg, by their identifier, are used."""

    name: str

    def output(self, directory: Path, name: str) -> str:
        """The table that a pipeline of a job writes."""
        if self.name == "delta":
            return str(directory / name / "output")
        return f"{ICEBERG_CATALOG}.{directory.name.replace('-', '_')}.{name.replace('-', '_')}"

    def sql_name(self, table: str) -> str:
        return f"delta.`{table}`" if self.name == "delta" else table

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table as a stream of small batches."""
        reader = spark.readStream.format(self.name)
        if self.name == "delta":
            return reader.option("maxFilesPerTrigger", AT_MOST_FILES).load(table)
        option = "streaming-max-files-per-micro-batch"
        return reader.option(option, AT_MOST_FILES).load(table)

    def start(self, writer: Any, table: str) -> Any:
        if self.name == "delta":
            return writer.format("delta").start(table)
        return writer.format("iceberg").toTable(table)

    def rows(self, spark: SparkSession, table: str) -> list[dict[str, Any]]:
        """The rows of a table that a query writes; none if it is not there."""
        if self.name == "delta":
            return current_rows(Path(table))
        if not spark.catalog.tableExists(table):
            return []
        return [row.asDict() for row in spark.read.format(self.name).load(table).collect()]


Query = Callable[[SparkSession, str, str, Lakehouse, str], DataFrame]


@dataclass(frozen=True)
class Feeds:
    """What the pipelines read."""

    kafka: Feed
    table: LakeFeed
    growing_table: LakeFeed | None


@dataclass(frozen=True)
class LakePipeline:
    """A query and its expected output: of bootstrap servers, topic, lakehouse and table.

    `follows_schema` is for one that reads the table which gets new columns.
    """

    name: str
    query: Query
    expected: Callable[[Feeds], Rows]
    output_mode: str = "append"
    follows_schema: bool = False
    lakehouses: tuple[str, ...] = ("delta", "iceberg")

    def extra(self, written: Rows, feeds: Feeds) -> Rows:
        """Rows that are there twice, or cannot be there yet. Right at any time."""
        expected = self.expected(feeds)
        if self.output_mode == "append":
            return written - expected
        # Counts may be of fewer rows than were sent, but only one for each group.
        most = {group: count for group, count, _ in expected}
        seen: Counter[int] = Counter()
        for group, _, _ in written.elements():
            seen[group] += 1
        return Rows(row for row in written if seen[row[0]] > 1 or row[1] > most.get(row[0], 0))


def row_of(values: dict[str, Any]) -> tuple[int, ...]:
    """A row as numbers; the columns that were added later as their sum."""
    if "group" in values:
        return values["group"], values["n"], values["sum"]
    added = [value for name, value in values.items() if name.startswith("more_")]
    return values["id"], values["at"], sum(value or 0 for value in added)


def _from_kafka(
    spark: SparkSession, servers: str, topic: str, lakehouse: Lakehouse, table: str
) -> DataFrame:
    return stateless(Input(servers, topic, topic, AT_MOST_RECORDS).read(spark, topic))


def _all_columns(
    spark: SparkSession, servers: str, topic: str, lakehouse: Lakehouse, table: str
) -> DataFrame:
    return lakehouse.read(spark, table)


def _counts(
    spark: SparkSession, servers: str, topic: str, lakehouse: Lakehouse, table: str
) -> DataFrame:
    groups = lakehouse.read(spark, table).groupBy((F.col("id") % GROUPS).alias("group"))
    return groups.agg(F.count("*").alias("n"), F.sum("id").alias("sum"))


def _expected_counts(rows: Iterable[tuple[int, ...]]) -> Rows:
    groups: dict[int, list[int]] = {}
    for number, *_ in rows:
        groups.setdefault(number % GROUPS, []).append(number)
    return Rows((group, len(ids), sum(ids)) for group, ids in groups.items())


def _growing_rows(feeds: Feeds) -> Rows:
    return Rows() if feeds.growing_table is None else feeds.growing_table.rows()


PIPELINES = (
    LakePipeline(
        "from-kafka",
        _from_kafka,
        lambda feeds: Rows((number, at, 0) for number, at in feeds.kafka.sent_left),
    ),
    LakePipeline("append", _all_columns, lambda feeds: feeds.table.rows()),
    LakePipeline(
        "complete",
        _counts,
        lambda feeds: _expected_counts(feeds.table.sent),
        output_mode="complete",
    ),
    LakePipeline(
        "schema-change",
        _all_columns,
        _growing_rows,
        follows_schema=True,
        lakehouses=("delta",),
    ),
)
