"""Programs that read a Delta or an Iceberg table as a stream, and how that table changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tests.differential.program import EVENTS, File, Input, Program
from tests.differential.runs import Arrival
from tests.real.lakehouses import ICEBERG_CATALOG

Step = File | str
"""Rows to append as one version of the table, or a statement about `{table}`."""


@dataclass(frozen=True)
class LakeProgram:
    """A program whose input is a table. Each of its rounds is some changes of that table."""

    program: Program
    table: Callable[[Input], str]
    rounds: Sequence[Sequence[Step]]

    def arrival(self, source: Input) -> Arrival:
        """Changes the table as the rounds say."""

        def change(number: int, rounds: int) -> None:
            assert rounds == len(self.rounds)
            for step in self.rounds[number]:
                apply_step(source.spark, self.table(source), step)

        return change

    def __str__(self) -> str:
        return self.program.name


def apply_step(spark: SparkSession, table: str, step: Step) -> None:
    """Append rows to a table, or run a statement about it."""
    if isinstance(step, str):
        spark.sql(step.format(table=table))
        return
    rows = ", ".join(f"(TIMESTAMP '{r['time']}', '{r['key']}', {r['value']})" for r in step)
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")


def create(using: str, properties: str = "") -> str:
    """A statement that creates the table."""
    return f"CREATE TABLE {{table}} ({EVENTS}) USING {using} {properties}"


def delta_table(source: Input) -> str:
    """A Delta table, by its path."""
    return f"delta.`{source.path('events')}`"


def iceberg_table(source: Input) -> str:
    """An Iceberg table of the catalog; its namespace belongs to the input directory."""
    digest = hashlib.sha256(str(source.directory).encode()).hexdigest()[:10]
    return f"{ICEBERG_CATALOG}.input_{digest}.events"


def read_delta(source: Input, **options: Any) -> Any:
    reader = source.spark.readStream.format("delta").options(**options)
    return reader.load(source.path("events"))


def read_iceberg(source: Input, **options: Any) -> Any:
    return source.spark.readStream.format("iceberg").options(**options).load(iceberg_table(source))
