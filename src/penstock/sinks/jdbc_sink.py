"""Writes each batch to a table of a database, exactly once, through Spark's JDBC data source."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.connectors import PythonSink
from penstock.errors import ExecutionError
from penstock.sinks.exactly_once_sink import ExactlyOnceSink
from penstock.sinks.identity import FoundBatch, Identity, OnRewind, check_arguments
from penstock.sinks.jdbc_ledger import Ledger
from penstock.sinks.jdbc_sql import ATTEMPT, Dialect, dialect_of
from penstock.spark.sinks.jdbc_session import JdbcSession
from penstock.spark.sinks.many_sinks import kept

JdbcMode = Literal["append", "overwrite", "merge"]

_LEDGER = "penstock_ledger"
_LARGEST_ATTEMPT = 2**31 - 1
_IN_SCHEMA = re.compile(r"""(?P<schema>.+)\.(?:"[^"]*"|`[^`]*`|\[[^\]]*\]|[^."`\]]+)""")


def jdbc(
    url: str,
    table: str,
    *,
    mode: JdbcMode | None = None,
    keys: Sequence[str] = (),
    user: str | None = None,
    password: str | None = None,
    driver: str | None = None,
    options: Mapping[str, str] | None = None,
    ledger: str | None = None,
    name: str | None = None,
    on_rewind: OnRewind = "fail",
) -> PythonSink:
    """A sink that writes each batch to a table of a database exactly once.

    Spark's JDBC writer writes the rows to a staging table. Then one transaction moves them to
    `table` and records the batch in the table `ledger`; a batch that is recorded is skipped. Both
    are in the schema of `table`; the ledger is `penstock_ledger` by default, and several sinks and
    queries may share it. Missing tables are created, `table` with Spark's types.

    `mode` is `append`, the default; `merge`, the default with `keys`: a row replaces the one with
    the same values in the key columns; or `overwrite`: a batch replaces all rows, for the output
    mode `complete`. In `merge`, a batch must not have two rows with the same key, and the table
    needs, on PostgreSQL, a unique constraint on the keys.

    `driver` is the class of the JDBC driver, which is to be named if the driver is in `spark.jars`;
    that of PostgreSQL is known. `options` are further options of Spark's JDBC writer. `name` is
    the identity of the sink in the ledger, by default its name in `to`; several sinks in one
    function of `foreachBatch` need one each.

    `on_rewind` is what happens with a batch that is recorded, but that a rewound checkpoint has
    planned anew: with `fail` the query fails; with `warn` the batch is skipped with a warning, and
    rows that only its new plan has are lost.

        penstock.write_stream(counts).outputMode("update").sink(
            penstock.sinks.jdbc(url, "counts", keys=["page"], user="etl", password=secret)
        )
    """
    given = mode or ("merge" if keys else "append")
    if given not in get_args(JdbcMode):
        raise ValueError(f"mode must be one of {get_args(JdbcMode)}, not {mode!r}")
    if (given == "merge") != bool(keys):
        raise ValueError(f"keys are for the mode merge, which needs them: {mode=}, {keys=}")
    if isinstance(keys, str):
        raise TypeError(f"keys must be a list of columns, not the text {keys!r}")
    check_arguments(name, on_rewind)
    driver = driver or dialect_of(url).driver
    known = {"url": url, "user": user, "password": password, "driver": driver}
    connection = {key: value for key, value in known.items() if value is not None}
    connection |= {key: str(value) for key, value in (options or {}).items()}
    return JdbcSink(connection, table, given, tuple(keys), ledger, name, on_rewind)


class Step(str, Enum):
    """A point between two steps of a batch in the sink."""

    PREPARED = "prepared"
    STAGED = "staged"
    RECORDED = "recorded"
    MOVED = "moved"
    COMMITTED = "committed"


@dataclass(frozen=True)
class _Staged:
    """A batch in the staging table `table`, which has its rows with the number of the attempt."""

    identity: Identity
    table: str
    columns: Sequence[str]
    attempt: int
    rows: int


class JdbcSink(ExactlyOnceSink):
    """See `jdbc`. `connection` are options of Spark's JDBC data source."""

    def __init__(
        self,
        connection: Mapping[str, str],
        table: str,
        mode: JdbcMode,
        keys: Sequence[str],
        ledger: str | None,
        name: str | None,
        on_rewind: OnRewind,
    ) -> None:
        super().__init__(table, connection, name, on_rewind)
        self._mode = mode
        self._keys = keys
        self._ledger = ledger or _beside(table, _LEDGER)
        self._own_staging: set[str] = set()
        """The staging tables that this object has created."""

    def recorded_as(self, name: str) -> Hashable | None:
        return type(self).__name__, self._options["url"], self._ledger, self._name or name

    def _write_new(self, identity: Identity, df: DataFrame, *, is_kept: bool) -> bool:
        """Write a batch that is not in the ledger.

        1. The ledger is read.
        2. The target and the staging table are created if they are missing.
        3. Spark's writer writes the rows to the staging table.
        4. One transaction adds the batch to the ledger and moves the rows to the target.
        """
        staging = _staging_name(identity, self._table)
        try:
            with self._connect(df) as session:
                dialect = dialect_of(self._options["url"])(session.quote)
                if self._is_recorded(session, dialect, identity):
                    return False
                columns = self._prepare(session, dialect, df, staging)
            self._at(Step.PREPARED)
            with contextlib.nullcontext() if is_kept else kept(df):
                rows = df.count()
                attempt = secrets.randbelow(_LARGEST_ATTEMPT)
                if rows:
                    numbered = df.toDF(*columns).withColumn(ATTEMPT, F.lit(attempt))
                    self._write(numbered, staging, "append")
            self._at(Step.STAGED)
            staged = _Staged(identity, staging, columns, attempt, rows)
            with self._connect(df) as session:
                self._move(session, dialect, staged)
        except BaseException:
            self._own_staging.discard(staging)
            raise
        self._at(Step.COMMITTED)
        return True

    def _at(self, step: Step) -> None:
        """Called between the steps of a batch; tests replace it."""

    def _connect(self, df: DataFrame) -> JdbcSession:
        return JdbcSession(df.sparkSession, {**self._options, "dbtable": self._table})

    def _write(self, df: DataFrame, table: str, mode: str) -> None:
        options = {**self._options, "dbtable": table}
        df.write.format("jdbc").options(**options).mode(mode).save()

    # 1. The ledger.

    def _is_recorded(self, session: JdbcSession, dialect: Dialect, identity: Identity) -> bool:
        ledger = Ledger(session, dialect, self._ledger, self._table)
        ledger.create_if_missing()
        entry = ledger.find(identity)
        if entry is None:
            return False
        rewound = entry.newest > identity.batch_id or identity.is_planned_anew(entry.planned_at_ms)
        place = f"the ledger {self._ledger}, with {entry.rows} rows in the table {self._table}"
        removal = (
            f"Or delete their entries: DELETE FROM {self._ledger} WHERE query_id = "
            f"'{identity.query_id}' AND sink = '{entry.sink}' AND batch_id >= {identity.batch_id}."
        )
        identity.skip(FoundBatch(place, entry.newest, rewound, removal), self._on_rewind)
        return True

    # 2. The tables.

    def _prepare(
        self, session: JdbcSession, dialect: Dialect, df: DataFrame, staging: str
    ) -> list[str]:
        """Create missing tables and empty the staging table.

        Returns the columns of the target, in the order of the columns of `df`.
        """
        found = session.columns(self._table)
        if found is None:
            self._create_target(session, dialect, df, staging)
            found = session.columns(self._table)
        columns = _matched(df.columns, found or [], self._table)
        _matched(self._keys, columns, self._table)
        if staging in self._own_staging and session.columns(staging) == [*columns, ATTEMPT]:
            session.update(dialect.empty(staging))
            return columns
        self._own_staging.discard(staging)
        if session.columns(staging) is not None:
            session.update(f"DROP TABLE {staging}")
        session.update(dialect.create_staging(staging, self._table, columns))
        self._own_staging.add(staging)
        return columns

    def _create_target(
        self, session: JdbcSession, dialect: Dialect, df: DataFrame, staging: str
    ) -> None:
        """Create the target: Spark creates the staging table, and the target takes its columns."""
        self._write(df.where("false"), staging, "overwrite")
        keys = _matched(self._keys, df.columns, self._table)
        statements = dialect.create_target(self._table, staging, df.columns, keys)
        with session.transaction():
            for statement in statements:
                session.update(statement)

    # 4. The transaction.

    def _move(self, session: JdbcSession, dialect: Dialect, staged: _Staged) -> None:
        identity = staged.identity
        ledger = Ledger(session, dialect, self._ledger, self._table)
        try:
            with session.transaction():
                if not ledger.add(identity, staged.rows, time.time_ns() // 1_000_000):
                    raise _AlreadyThereError
                self._at(Step.RECORDED)
                self._check(session, dialect, staged)
                if self._mode == "overwrite":
                    session.update(f"DELETE FROM {self._table}")
                for statement in self._moves(dialect, staged):
                    session.update(statement, staged.attempt)
                ledger.purge(identity)
                self._at(Step.MOVED)
        except _AlreadyThereError:
            if not self._is_recorded(session, dialect, identity):
                raise ExecutionError(
                    f"The ledger {self._ledger} refused batch {identity.batch_id} of query "
                    f"{identity.query_id}, and does not have it. Check the constraints of the "
                    "table: its primary key must be (query_id, sink, batch_id)."
                ) from None

    def _moves(self, dialect: Dialect, staged: _Staged) -> list[str]:
        """The statements that move the rows of an attempt, which is their parameter."""
        if not staged.rows:
            return []
        if self._mode == "merge":
            keys = _matched(self._keys, staged.columns, self._table)
            return dialect.merge(self._table, staged.table, staged.columns, keys)
        return [dialect.append(self._table, staged.table, staged.columns)]

    def _check(self, session: JdbcSession, dialect: Dialect, staged: _Staged) -> None:
        """Raise ExecutionError unless the staging table has each row of the batch once."""
        batch_id, staging, rows = staged.identity.batch_id, staged.table, staged.rows

        def count(sql: str) -> int:
            [[found]] = session.query(sql, staged.attempt)
            return int(found or 0)

        if rows and (found := count(dialect.count(staging))) != rows:
            raise ExecutionError(
                f"Batch {batch_id} has {rows} rows, but its staging table {staging} has "
                f"{found}: Spark has repeated a task whose first attempt had written its rows, or "
                "another process uses the table. Nothing was written to "
                f"{self._table}; the batch can be tried again."
            )
        if not rows or self._mode != "merge":
            return
        keys = _matched(self._keys, staged.columns, self._table)
        named = ", ".join(keys)
        if nulls := count(dialect.count_of_null_keys(staging, keys)):
            raise ExecutionError(
                f"{nulls} rows of batch {batch_id} have no value in a key column "
                f"({named}), so that they cannot be merged into {self._table}. Filter them out."
            )
        if repeated := count(dialect.count_of_repeated_keys(staging, keys)):
            raise ExecutionError(
                f"Batch {batch_id} has {repeated} keys ({named}) with more than one row, "
                f"so that it is undefined which row to keep in {self._table}. Aggregate the rows "
                "by key, or use dropDuplicates."
            )


class _AlreadyThereError(Exception):
    """Rolls back a transaction whose batch is in the ledger."""


def _matched(names: Sequence[str], columns: Sequence[str], table: str) -> list[str]:
    """The column of the table for each name: the same, or one that differs in case only."""
    by_case: dict[str, list[str]] = {}
    for column in columns:
        by_case.setdefault(column.lower(), []).append(column)
    matched = []
    for name in names:
        found = [name] if name in columns else by_case.get(name.lower(), [])
        if len(found) != 1:
            raise ExecutionError(
                f"The table {table} has {len(found) or 'no'} columns {name!r}, but "
                f"{', '.join(columns)}. Add the column to the table, or rename it in the query."
            )
        matched += found
    return matched


def _staging_name(identity: Identity, table: str) -> str:
    """The name of the staging table: the same for all batches of a sink of a query."""
    text = "\n".join((identity.query_id, identity.sink, table))
    return _beside(table, f"penstock_{hashlib.sha256(text.encode()).hexdigest()[:20]}")


def _beside(table: str, name: str) -> str:
    """A name in the schema of a table."""
    found = _IN_SCHEMA.fullmatch(table)
    return f"{found['schema']}.{name}" if found else name
