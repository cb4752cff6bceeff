"""The Iceberg sink on real tables."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import PythonSink
from penstock.sinks import iceberg
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


class TestOnIceberg(LakeContract):
    @pytest.fixture
    def tables(self) -> Tables:
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

    def test_the_last_batch_planned_anew_is_warned_of(
        self, session: SparkSession, tables: Tables, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = tables.new_table()
        tables.sink(table).write_batch(tables.batch(0, planned_at=1000), session.range(1))
        tables.sink(table).write_batch(tables.batch(0, planned_at=2000), session.range(1))
        assert "it was rewound" in caplog.text
        assert tables.numbers(session, table) == [0]

    def test_batches_of_others_do_not_matter(self, session: SparkSession, tables: Tables) -> None:
        table = tables.new_table()
        tables.sink(table).write_batch(tables.batch(7, sink="a"), session.range(1))
        session.range(1, 2).writeTo(table).append()
        tables.sink(table).write_batch(tables.batch(0, sink="b"), session.range(2, 3))
        assert tables.numbers(session, table) == [0, 1, 2]
