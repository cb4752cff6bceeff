"""The ledger of the JDBC sink, on SQLite."""

from __future__ import annotations

import sqlite3
from typing import cast

import pytest

from penstock import SinkBatch
from penstock.errors import ExecutionError
from penstock.sinks.identity import Identity
from penstock.sinks.jdbc_ledger import Ledger
from penstock.sinks.jdbc_sql import Dialect
from penstock.spark.sinks.jdbc_session import JdbcSession


class Sqlite:
    """A session of an empty database in memory."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None)

    def columns(self, table: str) -> list[str] | None:
        rows = self._database.execute(f"PRAGMA table_info({table})").fetchall()
        return [row[1] for row in rows] or None

    def update(self, sql: str, *parameters: object) -> int:
        return self._database.execute(sql, parameters).rowcount

    def insert(self, sql: str, *parameters: object) -> bool:
        try:
            self._database.execute(sql, parameters)
        except sqlite3.IntegrityError:
            return False
        return True

    def query(self, sql: str, *parameters: object) -> list[list[str | None]]:
        rows = self._database.execute(sql, parameters)
        return [[None if value is None else str(value) for value in row] for row in rows]


@pytest.fixture
def database() -> Sqlite:
    return Sqlite()


def ledger_of(target: str, database: Sqlite) -> Ledger:
    ledger = Ledger(cast(JdbcSession, database), Dialect(), "ledger", target)
    ledger.create_if_missing()
    return ledger


def identity(sink: str | None = None, name: str | None = None, batch_id: int = 0) -> Identity:
    return Identity.of(SinkBatch("q", batch_id, 1000, sink), name)


def test_a_batch_is_found_in_its_table(database: Sqlite) -> None:
    ledger = ledger_of("orders", database)
    assert ledger.find(identity()) is None
    assert ledger.add(identity(), 5, written_at_ms=1)
    assert not ledger.add(identity(), 5, written_at_ms=2)
    found = ledger.find(identity())
    assert found is not None
    assert (found.newest, found.planned_at_ms, found.rows) == (0, 1000, 5)
    assert ledger.find(identity(batch_id=1)) is None


def test_a_batch_under_the_same_name_for_another_table_is_an_error(database: Sqlite) -> None:
    ledger_of("orders", database).add(identity("orders", "pg"), 5, written_at_ms=1)
    with pytest.raises(ExecutionError) as caught:
        ledger_of("users", database).find(identity("users", "pg"))
    said = str(caught.value)
    assert said.startswith(
        "Batch 0 of query q is to be written to the table users, but the ledger ledger has it "
        "under the same name of a sink, 'pg', for the table orders. Nothing was written to users."
    )
    assert 'name="..."' in said
    assert ledger_of("users", database).find(identity("users")) is None


def test_the_error_says_how_a_renamed_table_keeps_its_batches(database: Sqlite) -> None:
    ledger_of("old", database).add(identity(), 5, written_at_ms=1)
    with pytest.raises(ExecutionError) as caught:
        ledger_of("new", database).find(identity())
    database.update(str(caught.value).partition("tell the ledger: ")[2].removesuffix("."))
    assert ledger_of("new", database).find(identity()) is not None


def test_a_batch_under_a_former_name_counts_for_the_same_table_only(database: Sqlite) -> None:
    ledger_of("orders", database).add(identity(), 5, written_at_ms=1)
    assert ledger_of("orders", database).find(identity("orders")) is not None
    assert ledger_of("users", database).find(identity("users")) is None
