"""One query over Kafka on both engines, each on a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.differential.compare import differences
from tests.differential.program import Program
from tests.differential.runs import Engine, Run, prepare
from tests.real.topics import Topics, new_name

COLUMNS = ("CAST(value AS STRING) AS value", "topic", "partition", "offset")


def read_kafka(
    spark: SparkSession,
    topics: Topics,
    options: dict[str, Any],
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """A stream of records, by default from the earliest."""
    reader = spark.readStream.format("kafka").option("startingOffsets", "earliest")
    reader = reader.options(**options)
    reader = reader.option("kafka.bootstrap.servers", topics.bootstrap_servers)
    return reader.load().selectExpr(*columns)


class Both:
    """Runs a query with the given options round by round; the rows are collected by batch."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        topics: Topics,
        options: dict[str, Any],
        columns: Sequence[str] = COLUMNS,
    ) -> None:
        self.program = Program(
            name=new_name("options"),
            build=lambda given: read_kafka(given.spark, topics, options, columns),
            inputs={},
        )
        session = prepare(self.program, spark)
        self.runs = {
            engine: Run(self.program, session, root / "input", root / engine.name.lower())
            for engine in Engine
        }

    def go(self) -> None:
        """Process all that is there, on both engines. Fails if their results differ."""
        for engine, run in self.runs.items():
            run.run_round(engine)
        spark, penstock = (self.runs[engine].observe() for engine in Engine)
        difference = differences("Spark", spark, "Penstock", penstock)
        assert not difference, difference

    @property
    def batches(self) -> dict[int, list[str]]:
        """The values of the records, sorted, by batch."""
        return {
            batch: sorted(row["value"] for row in rows)
            for batch, rows in self.runs[Engine.PENSTOCK].rows().items()
        }

    @property
    def values(self) -> list[str]:
        """The values of all records, sorted."""
        return sorted(value for values in self.batches.values() for value in values)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all batches."""
        batches = self.runs[Engine.PENSTOCK].rows()
        return [row for batch in sorted(batches) for row in batches[batch]]
