"""A table in PostgreSQL that takes each batch of a `foreachBatch` function once."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame

from tests.crash.pipelines import Rows


class BatchTable:
    """A table with the columns id and at, and the number of the batch that wrote a row.

    A batch is written by Spark to a table of its own, which one transaction then adds to the table
    together with the number of the batch, unless that number is there.
    """

    def __init__(self, url: str, jdbc_url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._jdbc_url = jdbc_url

    def create(self) -> None:
        """Create the table, if it is not there."""
        with psycopg.connect(self._url) as connection:
            for statement in (
                "CREATE TABLE IF NOT EXISTS {table} (batch bigint, id bigint, at bigint)",
                "CREATE TABLE IF NOT EXISTS {batches} (batch bigint PRIMARY KEY)",
            ):
                connection.execute(self._sql(statement))

    def write(self, df: DataFrame, batch_id: int) -> None:
        """Write a batch; without effect if it has been written."""
        staging = f"{self.name}_{batch_id}_{uuid.uuid4().hex[:8]}"
        df.write.option("driver", "org.postgresql.Driver").jdbc(self._jdbc_url, staging)
        with psycopg.connect(self._url) as connection:
            added = connection.execute(
                self._sql("INSERT INTO {batches} VALUES (%s) ON CONFLICT DO NOTHING"), [batch_id]
            )
            if added.rowcount == 1:
                connection.execute(
                    self._sql("INSERT INTO {table} SELECT %s, id, at FROM {staging}", staging),
                    [batch_id],
                )
            connection.execute(self._sql("DROP TABLE {staging}", staging))

    def rows(self) -> Rows:
        """The rows, without their batches."""
        return Rows((number, at) for _, number, at in self.rows_with_batch())

    def rows_with_batch(self) -> list[tuple[int, int, int]]:
        with psycopg.connect(self._url) as connection:
            found = connection.execute(self._sql("SELECT batch, id, at FROM {table}"))
            return [(batch, number, at) for batch, number, at in found]

    def _sql(self, statement: str, staging: str = "") -> Any:
        return sql.SQL(statement).format(
            table=sql.Identifier(self.name),
            batches=sql.Identifier(f"{self.name}_batches"),
            staging=sql.Identifier(staging),
        )
