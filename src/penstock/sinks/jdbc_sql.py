"""The SQL statements of the JDBC sink, by database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

ATTEMPT = "penstock_attempt"
"""The column of a staging table that holds the number of the attempt."""

LEDGER_COLUMNS = (
    "query_id VARCHAR(64) NOT NULL, sink VARCHAR(128) NOT NULL, batch_id BIGINT NOT NULL, "
    "target VARCHAR(512) NOT NULL, planned_at BIGINT, row_count BIGINT NOT NULL, "
    "written_at BIGINT NOT NULL, PRIMARY KEY (query_id, sink, batch_id)"
)
"""The columns of the ledger. Times are milliseconds since 1970 in UTC."""


class Dialect:
    """Standard SQL. `quote` is the string that quotes identifiers.

    Tables are names as users write them, possibly quoted and with a schema; columns are names of
    existing columns, which are quoted here.
    """

    driver: ClassVar[str | None] = None
    """The class of the driver. Spark finds one in `spark.jars` only by its name."""

    def __init__(self, quote: str = '"') -> None:
        self._quote = quote

    def column(self, name: str, of: str | None = None) -> str:
        """A column as an identifier, of a table if one is given."""
        quoted = f"{self._quote}{name.replace(self._quote, self._quote * 2)}{self._quote}"
        return quoted if of is None else f"{of}.{quoted}"

    def columns(self, names: Sequence[str]) -> str:
        return ", ".join(self.column(name) for name in names)

    def create_ledger(self, ledger: str) -> str:
        return f"CREATE TABLE {ledger} ({LEDGER_COLUMNS})"

    def create_target(
        self, target: str, staging: str, columns: Sequence[str], keys: Sequence[str]
    ) -> list[str]:
        """Create an empty target with the columns of a staging table, for merging by the keys."""
        return [f"CREATE TABLE {target} AS {self._nothing_of(staging, self.columns(columns))}"]

    def create_staging(self, staging: str, target: str, columns: Sequence[str]) -> str:
        """Create an empty staging table with some columns of the target."""
        selected = f"{self.columns(columns)}, 0 AS {self.column(ATTEMPT)}"
        return f"CREATE TABLE {staging} AS {self._nothing_of(target, selected)}"

    def _nothing_of(self, table: str, selected: str) -> str:
        return f"SELECT {selected} FROM {table} WHERE 1 = 0"

    def empty(self, staging: str) -> str:
        return f"DELETE FROM {staging}"

    def count(self, staging: str) -> str:
        return f"SELECT COUNT(*) FROM {staging} WHERE {self.column(ATTEMPT)} = ?"

    def count_of_null_keys(self, staging: str, keys: Sequence[str]) -> str:
        nulls = " OR ".join(f"{self.column(key)} IS NULL" for key in keys)
        return f"{self.count(staging)} AND ({nulls})"

    def count_of_repeated_keys(self, staging: str, keys: Sequence[str]) -> str:
        names = self.columns(keys)
        return (
            f"SELECT COUNT(*) FROM (SELECT {names} FROM {staging} WHERE {self.column(ATTEMPT)} = ? "
            f"GROUP BY {names} HAVING COUNT(*) > 1) repeated"
        )

    # Moving the rows of an attempt. Each statement has the attempt as its parameter.

    def append(self, target: str, staging: str, columns: Sequence[str]) -> str:
        names = self.columns(columns)
        return (
            f"INSERT INTO {target} ({names}) SELECT {names} FROM {staging} "
            f"WHERE {self.column(ATTEMPT)} = ?"
        )

    def merge(
        self, target: str, staging: str, columns: Sequence[str], keys: Sequence[str]
    ) -> list[str]:
        """Insert the rows; of a key that the target has, the new row replaces the old one."""
        same = " AND ".join(f"{self.column(k, 's')} = {self.column(k, target)}" for k in keys)
        return [
            f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {staging} s "
            f"WHERE {self.column(ATTEMPT, 's')} = ? AND {same})",
            self.append(target, staging, columns),
        ]


class PostgreSql(Dialect):
    """PostgreSQL. A staging table is not logged: the server may lose it in a crash."""

    driver = "org.postgresql.Driver"

    def create_target(
        self, target: str, staging: str, columns: Sequence[str], keys: Sequence[str]
    ) -> list[str]:
        created = super().create_target(target, staging, columns, keys)
        if keys:
            created.append(f"ALTER TABLE {target} ADD PRIMARY KEY ({self.columns(keys)})")
        return created

    def create_staging(self, staging: str, target: str, columns: Sequence[str]) -> str:
        created = super().create_staging(staging, target, columns)
        return created.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1)

    def _nothing_of(self, table: str, selected: str) -> str:
        return f"SELECT {selected} FROM {table} WITH NO DATA"

    def empty(self, staging: str) -> str:
        return f"TRUNCATE TABLE {staging}"

    def merge(
        self, target: str, staging: str, columns: Sequence[str], keys: Sequence[str]
    ) -> list[str]:
        """Columns that the batch does not have keep their value in a row that is replaced."""
        values = [self.column(name) for name in columns if name not in keys]
        changes = ", ".join(f"{value} = EXCLUDED.{value}" for value in values)
        action = f"UPDATE SET {changes}" if changes else "NOTHING"
        conflict = f"ON CONFLICT ({self.columns(keys)}) DO {action}"
        return [f"{self.append(target, staging, columns)} {conflict}"]


class Derby(Dialect):
    """Apache Derby."""

    def _nothing_of(self, table: str, selected: str) -> str:
        return f"SELECT {selected} FROM {table} WITH NO DATA"

    def empty(self, staging: str) -> str:
        return f"TRUNCATE TABLE {staging}"


_DIALECTS: dict[str, type[Dialect]] = {"postgresql": PostgreSql, "derby": Derby}


def dialect_of(url: str) -> type[Dialect]:
    """The dialect of a JDBC URL: its own, or standard SQL."""
    scheme = url.lower().removeprefix("jdbc:").partition(":")[0]
    return _DIALECTS.get(scheme, Dialect)
