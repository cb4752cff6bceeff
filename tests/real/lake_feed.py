"""Appends rows to a Delta or an Iceberg table, and knows what it has written."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.crash.pipelines import Rows, make_rows

Sent = tuple[int, int, int]
"""The id and the time of a row, and the sum of its added columns."""


class LakeFeed:
    """A table with the columns id and at, and with `grows_every` one more after so many blocks.

    Each added column has the id of its row.
    """

    def __init__(
        self, spark: SparkSession, table: str, using: str, grows_every: int | None = None
    ) -> None:
        self.sent: list[Sent] = []
        self.added: list[str] = []
        self._table = table
        self._grows_every = grows_every
        self._blocks = 0
        self._spark = spark.newSession()
        self._spark.sql(f"CREATE TABLE {table} (id LONG, at LONG) USING {using}")

    def send(self, blocks: int) -> None:
        """Append some blocks of rows, each as one version of the table."""
        for number in range(self._blocks, self._blocks + blocks):
            if self._grows_every and number and number % self._grows_every == 0:
                self._add_column()
            self._append([(row["id"], row["at"]) for row in make_rows(number)[0]])
        self._blocks += blocks

    def rows(self) -> Rows:
        return Rows(self.sent)

    def _add_column(self) -> None:
        name = f"more_{len(self.added)}"
        self._spark.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({name} LONG)")
        self.added.append(name)

    def _append(self, rows: list[tuple[int, int]]) -> None:
        # Noted before they are written: a row that a query has read was noted.
        self.sent += [(number, at, number * len(self.added)) for number, at in rows]
        values = ", ".join(str((*row, *[row[0]] * len(self.added))) for row in rows)
        self._spark.sql(
            f"INSERT INTO {self._table} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}"
        )
