"""The Delta sink on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import PythonSink, SinkBatch, StreamingQueryException
from penstock.sinks import delta
from penstock.testing import CrashReport
from tests.real.reports import report
from tests.real.topics import new_name
from tests.sinks.lake_contract import LakeContract, LakeTables
from tests.sinks.runs import rewind, write
from tests.sinks.sink_contract import Tables
from tests.streams import session

__all__ = ["session"]

pytestmark = pytest.mark.delta


class DeltaTables(LakeTables):
    """Delta tables, by path."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def new_table(self) -> str:
        return str(self._folder / new_name("table"))

    def sink(self, table: str, **arguments: Any) -> PythonSink:
        return delta(table, **arguments)

    def rows(self, session: SparkSession, table: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, session.read.format("delta").load(table).collect()))

    def start_streaming(self, writer: Any, table: str) -> Any:
        return writer.format("delta").start(table)


class TestByPath(LakeContract):
    @pytest.fixture
    def tables(self, tmp_path: Path) -> LakeTables:
        return DeltaTables(tmp_path)

    def tell(self, what: str, found: CrashReport) -> None:
        report(f"Delta sink, {what}: {len(found.trials)} crashes, all exactly once")

    def test_the_last_batch_planned_anew_is_noticed(
        self,
        session: SparkSession,
        checkpoint: Path,
        tables: Tables,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        table = tables.new_table()
        write(session, 4, tables.sink(table), checkpoint)
        rewind(checkpoint, 0)
        with pytest.raises(StreamingQueryException, match="it was rewound"):
            write(session, 4, tables.sink(table), checkpoint)
        caplog.clear()
        write(session, 4, tables.sink(table, on_rewind="warn"), checkpoint)
        assert caplog.text.count("it was rewound") == 1


def test_a_table_has_a_name_too(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_name("delta_sink").replace("-", "_")
    write(session, 4, delta(table=table), checkpoint)
    write(session, 6, delta(table=table), checkpoint)
    rewind(checkpoint, 0)
    write(session, 6, delta(table=table, on_rewind="warn"), checkpoint)
    assert sorted(row.n for row in session.table(table).collect()) == [0, 1, 2, 3, 4, 5]
    assert caplog.text.count("it was rewound") == 2


def test_a_table_that_cannot_be_looked_into_is_written_with_a_warning(
    session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("penstock.spark.sinks.delta_transactions._DELTA_LOG", "no.such.DeltaLog")
    path = str(tmp_path / "table")
    for _ in range(2):
        delta(path).write_batch(SinkBatch("q", 0, 1000), session.range(2))
    assert session.read.format("delta").load(path).count() == 2
    assert "is not checked" in caplog.text
