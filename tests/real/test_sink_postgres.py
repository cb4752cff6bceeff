"""The JDBC sink on PostgreSQL: the contract, and what only PostgreSQL has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import ExecutionError
from penstock.sinks import jdbc
from penstock.sinks.jdbc_sink import Step
from penstock.testing import CrashReport
from tests.real.jars import postgres_driver, spark_jars
from tests.real.parts import ROOT
from tests.real.postgres import PostgresServer
from tests.real.reports import report
from tests.sinks.jdbc_contract import Database, JdbcContract
from tests.streams import session

__all__ = ["session"]


class Postgres(Database):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class TestOnPostgres(JdbcContract):
    @pytest.fixture
    def database(self, postgres: PostgresServer) -> Database:
        return Postgres(postgres.jdbc_url)

    def tell(self, what: str, found: CrashReport) -> None:
        report(f"JDBC sink on PostgreSQL, {what}: {len(found.trials)} crashes, all exactly once")

    def test_values_are_converted_as_in_a_write_to_the_table(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        columns = "id serial, at timestamptz, amount numeric(9,2), tags text[]"
        database.execute(session, f"CREATE TABLE {table} ({columns})")
        rows = session.sql("select timestamp'2026-01-01', cast(1.5 as decimal(5,2)), array('a')")
        database.sink(table).write_batch(database.batch(0), rows.toDF("at", "amount", "tags"))
        [(number, _, amount, tags)] = database.rows(session, table)
        assert (number, float(amount), list(tags)) == (1, 1.5, ["a"])

    def test_columns_that_a_batch_lacks_keep_their_value_in_a_merge(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        database.execute(
            session,
            f"CREATE TABLE {table} (k BIGINT PRIMARY KEY, v BIGINT, kept VARCHAR(9))",
            f"INSERT INTO {table} VALUES (1, 1, 'x')",
        )
        rows = session.createDataFrame([(1, 7), (2, 8)], "k long, v long")
        database.sink(table, keys=["k"]).write_batch(database.batch(0), rows)
        assert database.rows(session, table)[0] == (1, 7, "x")

    def test_a_merge_needs_a_unique_constraint(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        database.execute(session, f"CREATE TABLE {table} (k BIGINT)")
        with pytest.raises(ExecutionError, match="no unique or exclusion constraint"):
            database.sink(table, keys=["k"]).write_batch(
                database.batch(0), session.range(1).toDF("k")
            )
        assert database.rows(session, table) == []

    def test_a_table_that_may_not_be_read_is_not_created(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        writer = f"w_{table}"
        database.execute(
            session,
            f"CREATE TABLE {table} (id BIGINT)",
            f"CREATE ROLE {writer} LOGIN",
            "GRANT CREATE ON SCHEMA public TO PUBLIC",
            f"GRANT INSERT ON {table} TO {writer}",
        )
        sink = jdbc(database.url.partition("?")[0], table, user=writer, ledger=f"ledger_of_{table}")
        with pytest.raises(ExecutionError, match=f"permission denied for table {table}"):
            sink.write_batch(database.batch(0), session.range(1))

    @pytest.mark.parametrize("step", Step)
    def test_a_process_that_is_killed_between_two_steps_loses_nothing(
        self, session: SparkSession, database: Database, tmp_path: Path, step: Step
    ) -> None:
        table = database.new_table()
        (tmp_path / "in").mkdir()
        for number in range(3):
            rows = "\n".join(f'{{"n": {10 * number + i}}}' for i in range(10))
            (tmp_path / "in" / f"{number}.json").write_text(rows)

        def run(*arguments: str) -> int:
            jars = spark_jars(postgres_driver())
            command = [sys.executable, "-m", "tests.sinks.kill_job", str(tmp_path), jars]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            return subprocess.run(
                [*command, database.url, table, *arguments], env=environment, check=False
            ).returncode

        assert run(step.value) == -signal.SIGKILL
        assert run() == 0
        assert database.numbers(session, table) == list(range(30))
        report(f"JDBC sink on PostgreSQL: killed at {step.value}, 0 lost, 0 twice of 30 rows")
