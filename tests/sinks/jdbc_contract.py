"""What the JDBC sink does on every database, beside what all sinks do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import DataStreamWriter, PythonSink, StreamingQueryException, write_stream
from penstock.errors import ExecutionError
from penstock.sinks import jdbc
from penstock.sinks.identity import Identity
from penstock.sinks.jdbc_sink import JdbcSink, Step, _staging_name
from penstock.spark.sinks.jdbc_session import JdbcSession
from penstock.testing import Workspace
from tests.sinks.runs import numbers, run, write
from tests.sinks.sink_contract import SinkContract, Tables, crash_at_the_points_of_many_sinks
from tests.streams import progress_fields


class Database(Tables):
    """A database under test."""

    url: str

    def staging(self, table: str) -> str:
        """The staging table of the only sink of that query."""
        return _staging_name(Identity(self.query, "-", 0), table)

    @property
    def types(self) -> str:
        """The types of new tables whose column `k` can be compared."""
        return "k VARCHAR(20)"

    def new_table(self) -> str:
        return f"t_{uuid4().hex[:12]}"

    def sink(self, table: str, **arguments: Any) -> PythonSink:
        return jdbc(self.url, table, **arguments)

    def rows(self, session: SparkSession, table: str) -> list[tuple[Any, ...]]:
        reader = session.read.format("jdbc").options(
            **self.sink(table).secret_options(), dbtable=table
        )
        return sorted(map(tuple, reader.load().collect()))

    def connect(self, session: SparkSession) -> JdbcSession:
        return JdbcSession(session, {**self.sink("t").secret_options(), "dbtable": "t"})

    def execute(self, session: SparkSession, *statements: str) -> None:
        with self.connect(session) as database:
            for statement in statements:
                database.update(statement)

    def check_recorded(self, session: SparkSession, table: str, batches: Sequence[int]) -> None:
        assert [entry[1] for entry in self.ledger(session, table)] == list(batches)

    def ledger(self, session: SparkSession, table: str) -> list[tuple[str, int, int]]:
        """Sink, batch and number of rows of the entries of a table."""
        with self.connect(session) as database:
            found = database.query(
                "SELECT sink, batch_id, row_count FROM penstock_ledger WHERE target = ?", table
            )
        return sorted((str(sink), int(b or 0), int(rows or 0)) for sink, b, rows in found)


def at(step: Step, act: Callable[[], None]) -> Callable[[JdbcSink, Step], None]:
    """A replacement of `JdbcSink._at` that acts at the first passage of a step."""
    is_done = False

    def reach(sink: JdbcSink, reached: Step) -> None:
        nonlocal is_done
        if reached is step and not is_done:
            is_done = True
            act()

    return reach


def fail() -> None:
    raise RuntimeError("boom")


class JdbcContract(SinkContract):
    """Tests for one database, with its fixture `database`."""

    @pytest.fixture
    def database(self) -> Database:
        raise NotImplementedError

    @pytest.fixture
    def tables(self, database: Database) -> Tables:
        return database

    # Queries.

    @pytest.mark.core
    def test_batches_are_appended_and_recorded(
        self, session: SparkSession, checkpoint: Path, database: Database
    ) -> None:
        table = database.new_table()
        sink = database.sink(table)
        write(session, 5, sink, checkpoint)
        write(session, 6, sink, checkpoint)
        assert database.numbers(session, table) == [0, 1, 2, 3, 4, 5]
        recorded = [("-", 0, 2), ("-", 1, 2), ("-", 2, 1), ("-", 3, 1)]
        assert database.ledger(session, table) == recorded
        assert session.sparkContext._jsc.getPersistentRDDs().isEmpty()

    def test_merging_replaces_the_rows_of_a_key(
        self, session: SparkSession, checkpoint: Path, database: Database
    ) -> None:
        table = database.new_table()
        counts = numbers(session, 9).groupBy((F.col("n") % 3).alias("k")).count()
        writer = write_stream(counts).outputMode("update").sink(database.sink(table, keys=["K"]))
        run(writer, checkpoint)
        assert database.rows(session, table) == [(0, 3), (1, 3), (2, 3)]

    def test_one_of_many_sinks_is_recorded_by_its_name(
        self, session: SparkSession, checkpoint: Path, database: Database
    ) -> None:
        even, odd = database.new_table(), database.new_table()
        writer = write_stream(numbers(session, 4))
        writer.to("even", database.sink(even), where="n % 2 = 0", parallel=True)
        writer.to("odd", database.sink(odd), where="n % 2 = 1", parallel=True)
        run(writer, checkpoint)
        assert database.numbers(session, even) == [0, 2]
        assert database.numbers(session, odd) == [1, 3]
        assert database.ledger(session, even) == [("even", 0, 1), ("even", 1, 1)]

    # Crashes.

    @pytest.mark.parametrize("step", Step)
    def test_a_crash_between_two_steps_changes_nothing(
        self,
        session: SparkSession,
        checkpoint: Path,
        database: Database,
        step: Step,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        table = database.new_table()
        write(session, 2, database.sink(table), checkpoint)
        monkeypatch.setattr(JdbcSink, "_at", at(step, fail))
        with pytest.raises(StreamingQueryException, match="boom"):
            write(session, 6, database.sink(table), checkpoint)
        seen = {0, 1, 2, 3} if step is Step.COMMITTED else {0, 1}
        assert set(database.numbers(session, table)) == seen
        write(session, 6, database.sink(table), checkpoint)
        assert database.numbers(session, table) == [0, 1, 2, 3, 4, 5]

    def test_a_crash_at_the_points_of_many_sinks_changes_nothing(
        self, session: SparkSession, database: Database
    ) -> None:
        types = {"createTableColumnTypes": database.types}

        def pipeline(work: Workspace, sums: str, rows: str) -> DataStreamWriter:
            counts = work.input.groupBy("k").agg(F.sum("n").alias("total"))
            merged = database.sink(sums, keys=["k"], options=types)
            writer = write_stream(counts).outputMode("update").to("sums", merged)
            return writer.to("rows", database.sink(rows, options=types), where="total > 2")

        report = crash_at_the_points_of_many_sinks(session, database, pipeline)
        assert report.expected_rows == 3 + 3
        self.tell("merge and append, many sinks", report)

    def test_of_two_processes_that_write_a_batch_one_does(
        self, session: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, rows = database.new_table(), session.range(3)
        database.sink(table).write_batch(database.batch(0), rows)
        other = database.sink(table)
        act = at(Step.STAGED, lambda: other.write_batch(database.batch(1), rows))
        monkeypatch.setattr(JdbcSink, "_at", act)
        database.sink(table).write_batch(database.batch(1), rows)
        assert database.numbers(session, table) == [0, 0, 1, 1, 2, 2]
        assert database.ledger(session, table) == [("-", 0, 3), ("-", 1, 3)]

    def test_a_task_that_has_written_twice_is_found(
        self, session: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, rows = database.new_table(), session.range(3)
        staging = database.staging(table)
        again = f"INSERT INTO {staging} SELECT * FROM {staging}"
        act = at(Step.STAGED, lambda: database.execute(session, again))
        monkeypatch.setattr(JdbcSink, "_at", act)
        sink = database.sink(table)
        with pytest.raises(ExecutionError, match=r"has 3 rows, but its staging .* has 6"):
            sink.write_batch(database.batch(0), rows)
        assert database.rows(session, table) == []
        sink.write_batch(database.batch(0), rows)
        assert database.numbers(session, table) == [0, 1, 2]

    def test_the_rows_of_another_attempt_are_left(
        self, session: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, rows = database.new_table(), session.range(3)
        staging = database.staging(table)
        late = f"INSERT INTO {staging} VALUES (7, -1)"
        act = at(Step.STAGED, lambda: database.execute(session, late))
        monkeypatch.setattr(JdbcSink, "_at", act)
        database.sink(table).write_batch(database.batch(0), rows)
        assert database.numbers(session, table) == [0, 1, 2]

    # Batches that are recorded.

    def test_the_last_batch_planned_anew_is_noticed(
        self, session: SparkSession, database: Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = database.new_table()
        sink = database.sink(table)
        sink.write_batch(database.batch(0, planned_at=1000), session.range(2))
        sink.write_batch(database.batch(0, planned_at=None), session.range(2))
        anew, rows = database.batch(0, planned_at=2000), session.range(3)
        with pytest.raises(ExecutionError, match="it was rewound") as caught:
            sink.write_batch(anew, rows)
        assert "it was rewound" not in caplog.text
        database.sink(table, on_rewind="warn").write_batch(anew, rows)
        assert "it was rewound" in caplog.text
        assert database.numbers(session, table) == [0, 1]
        removal = re.search(r"DELETE FROM \w+ WHERE .* batch_id >= 0", str(caught.value))
        assert removal is not None
        database.execute(session, f"DELETE FROM {table}", removal[0])
        sink.write_batch(anew, rows)
        assert database.numbers(session, table) == [0, 1, 2]

    def test_sinks_of_one_function_need_names_of_their_own(
        self, session: SparkSession, database: Database
    ) -> None:
        orders, users = database.new_table(), database.new_table()
        database.sink(orders).write_batch(database.batch(0), session.range(2))
        with pytest.raises(ExecutionError, match=rf'for the table {orders}.*name="\.\.\."'):
            database.sink(users).write_batch(database.batch(0), session.range(3))
        database.sink(users, name="users").write_batch(database.batch(0), session.range(3))
        database.sink(orders).write_batch(database.batch(0), session.range(2))
        assert database.numbers(session, orders) == [0, 1]
        assert database.numbers(session, users) == [0, 1, 2]

    # Tables and columns.

    def test_a_table_that_exists_is_matched_by_its_columns(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        create = f"CREATE TABLE {table} (N BIGINT, K VARCHAR(9), NOTE VARCHAR(9) DEFAULT 'now')"
        database.execute(session, create)
        rows = session.createDataFrame([("x", 1)], "k string, n long")
        database.sink(table).write_batch(database.batch(0), rows)
        assert database.rows(session, table) == [(1, "x", "now")]
        with pytest.raises(ExecutionError, match="has no columns 'other'"):
            database.sink(table).write_batch(
                database.batch(1), rows.withColumnRenamed("k", "other")
            )

    def test_only_a_missing_table_has_no_columns(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        database.execute(session, f"CREATE TABLE {table} (n BIGINT)")
        with database.connect(session) as connection:
            assert connection.columns(table) is not None
            assert connection.columns("no_such_table") is None
            assert connection.columns("no_such_schema.t") is None
            with pytest.raises(
                ExecutionError, match=r"failed: (?s:.*)In: SELECT \* FROM not a name"
            ):
                connection.columns("not a name")

    def test_a_batch_with_ambiguous_keys_is_refused(
        self, session: SparkSession, database: Database
    ) -> None:
        table = database.new_table()
        sink = database.sink(table, keys=["a"])
        rows = session.createDataFrame([(1, 1), (1, 2), (2, 1)], "a long, b long")
        with pytest.raises(ExecutionError, match=r"Batch 0 has 1 keys \(a\) with more than one"):
            sink.write_batch(database.batch(0), rows)
        nulls = session.createDataFrame([(None, 1)], "a long, b long")
        with pytest.raises(ExecutionError, match="1 rows of batch 0 have no value in a key"):
            sink.write_batch(database.batch(0), nulls)
        assert database.rows(session, table) == []
        sink.write_batch(database.batch(0), rows.where("b = 1"))
        assert database.rows(session, table) == [(1, 1), (2, 1)]

    def test_an_error_of_the_database_names_the_statement(
        self, session: SparkSession, database: Database
    ) -> None:
        with pytest.raises(ExecutionError, match=r"The database failed: (?s:.*)In: DROP TABLE no_"):
            database.execute(session, "DROP TABLE no_such_table")

    def test_a_password_is_in_no_error_log_or_progress(
        self,
        session: SparkSession,
        checkpoint: Path,
        database: Database,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        secret = "kj34h5kjh"
        message = f"cannot connect with {secret}"

        def tell() -> None:
            raise RuntimeError(message)

        table = database.new_table()
        sink = database.sink(table, password=secret)
        write(session, 2, sink, checkpoint)
        monkeypatch.setattr(JdbcSink, "_at", at(Step.STAGED, tell))
        writer = write_stream(numbers(session, 4)).sink(sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        with pytest.raises(StreamingQueryException) as caught:
            query.awaitTermination()
        assert "cannot connect with" in str(caught.value)
        told = [str(caught.value), caplog.text, repr(sink), str(query.recentProgress)]
        told += [str(progress_fields(progress)) for progress in query.recentProgress]
        assert all(secret not in text for text in told)
