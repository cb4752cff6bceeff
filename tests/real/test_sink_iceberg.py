"""The Iceberg sink on real tables."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import PythonSink
from penstock.errors import ExecutionError
from penstock.sinks import iceberg
from penstock.sinks.identity import Identity
from penstock.testing import CrashReport
from tests.real.lakehouses import ICEBERG_CATALOG
from tests.real.reports import report
from tests.real.topics import new_name
from tests.sinks.lake_contract import LakeContract, LakeTables
from tests.sinks.sink_contract import Tables
from tests.streams import session

__all__ = ["session"]

pytestmark = pytest.mark.iceberg


class IcebergTables(LakeTables):
    def new_table(self) -> str:
        return f"{ICEBERG_CATALOG}.sinks.{new_name('t').replace('-', '_')}"

    def sink(self, table: str, **arguments: Any) -> PythonSink:
        return iceberg(table, **arguments)

    def rows(self, session: SparkSession, table: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, session.table(table).collect()))

    def start_streaming(self, writer: Any, table: str) -> Any:
        return writer.format("iceberg").toTable(table)


class TestOnIceberg(LakeContract):
    @pytest.fixture
    def tables(self) -> LakeTables:
        return IcebergTables()

    def tell(self, what: str, found: CrashReport) -> None:
        report(f"Iceberg sink, {what}: {len(found.trials)} crashes, all exactly once")

    def test_a_snapshot_has_the_batch_in_its_summary(
        self, session: SparkSession, tables: Tables
    ) -> None:
        table = tables.new_table()
        tables.sink(table, options={"snapshot-property.team": "web"}).write_batch(
            tables.batch(3, sink="lake"), session.range(1)
        )
        snapshots = session.table(f"{table}.snapshots").orderBy("committed_at").collect()
        summary = snapshots[-1].summary
        assert {key: summary[key] for key in summary if key.startswith(("penstock.", "team"))} == {
            "penstock.query-id": tables.query,
            "penstock.sink": "lake",
            "penstock.batch-id": "3",
            "penstock.planned-at": "1000",
            "team": "web",
        }

    def test_a_batch_that_was_rolled_back_is_written_again(
        self, session: SparkSession, tables: Tables
    ) -> None:
        table = tables.new_table()
        tables.sink(table).write_batch(tables.batch(0), session.range(1))
        [current] = session.table(f"{table}.refs").collect()
        tables.sink(table).write_batch(tables.batch(1), session.range(1, 2))
        session.sql(
            f"CALL {ICEBERG_CATALOG}.system.rollback_to_snapshot('{table}', {current.snapshot_id})"
        )
        assert tables.numbers(session, table) == [0]
        tables.sink(table).write_batch(tables.batch(1), session.range(1, 2))
        assert tables.numbers(session, table) == [0, 1]

    def test_the_last_batch_planned_anew_is_noticed(
        self, session: SparkSession, tables: Tables, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = tables.new_table()
        tables.sink(table).write_batch(tables.batch(0, planned_at=1000), session.range(1))
        anew = tables.batch(0, planned_at=2000)
        with pytest.raises(ExecutionError, match="it was rewound"):
            tables.sink(table).write_batch(anew, session.range(1))
        tables.sink(table, on_rewind="warn").write_batch(anew, session.range(1))
        assert "it was rewound" in caplog.text
        assert tables.numbers(session, table) == [0]

    def test_a_driver_that_wakes_up_does_not_write_a_batch_of_its_successor(
        self, session: SparkSession, tables: Tables
    ) -> None:
        table = tables.new_table()
        asleep, successor = tables.sink(table), tables.sink(table)
        asleep.write_batch(tables.batch(0), session.range(1))
        successor.write_batch(tables.batch(1), session.range(1, 2))
        asleep.write_batch(tables.batch(1), session.range(1, 2))
        for number in (2, 3):
            successor.write_batch(tables.batch(number), session.range(number, number + 1))
        with pytest.raises(ExecutionError, match="another process runs the query"):
            asleep.write_batch(tables.batch(2), session.range(2, 3))
        assert tables.numbers(session, table) == [0, 1, 2, 3]

    def test_a_table_that_nobody_else_writes_is_looked_into_once(
        self, session: SparkSession, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = tables.new_table()
        sink: Any = tables.sink(table)
        looks: list[int] = []
        look = sink._is_there

        def is_there(df: DataFrame, identity: Identity) -> bool:
            looks.append(identity.batch_id)
            return bool(look(df, identity))

        monkeypatch.setattr(sink, "_is_there", is_there)
        for number in range(3):
            sink.write_batch(tables.batch(number), session.range(number))
        session.sql(f"DELETE FROM {table} WHERE id = 0")
        for number in (3, 4):
            sink.write_batch(tables.batch(number), session.range(0))
        assert looks == [0, 3]

    @pytest.mark.parametrize("setting", ["spark.wap.branch", "spark.wap.id"])
    def test_a_table_whose_commits_are_staged_is_refused(
        self, session: SparkSession, tables: Tables, setting: str
    ) -> None:
        table = tables.new_table()
        session.conf.set(setting, "audit")
        tables.sink(table).write_batch(tables.batch(0), session.range(1))
        session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        with pytest.raises(ExecutionError, match=f"{setting} and the property write.wap.enabled"):
            tables.sink(table).write_batch(tables.batch(1), session.range(1, 2))
        session.conf.unset(setting)
        tables.sink(table).write_batch(tables.batch(1), session.range(1, 2))
        assert tables.numbers(session, table) == [0, 1]

    def test_batches_of_others_do_not_matter(self, session: SparkSession, tables: Tables) -> None:
        table = tables.new_table()
        tables.sink(table).write_batch(tables.batch(7, sink="a"), session.range(1))
        session.range(1, 2).writeTo(table).append()
        tables.sink(table).write_batch(tables.batch(0, sink="b"), session.range(2, 3))
        assert tables.numbers(session, table) == [0, 1, 2]
