"""What the sinks of Delta and Iceberg do alike, beside what all sinks do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import DataStreamWriter, write_stream
from penstock.testing import Workspace
from tests.sinks.runs import write
from tests.sinks.sink_contract import SinkContract, Tables, crash_at_the_points_of_many_sinks


class LakeTables(Tables):
    """The tables of Delta or Iceberg."""

    partitioned: Mapping[str, Any] = {"partition_by": ["k"]}


class LakeContract(SinkContract):
    """Tests for one kind of table, with its fixture `tables`."""

    def test_batches_are_appended(
        self, session: SparkSession, checkpoint: Path, tables: Tables
    ) -> None:
        table = tables.new_table()
        sink = tables.sink(table)
        write(session, 5, sink, checkpoint)
        write(session, 6, sink, checkpoint)
        assert tables.numbers(session, table) == [0, 1, 2, 3, 4, 5]

    def test_a_crash_at_the_points_of_many_sinks_changes_nothing(
        self, session: SparkSession, tables: Tables
    ) -> None:
        def pipeline(work: Workspace, left: str, right: str) -> DataStreamWriter:
            writer = write_stream(work.input).to("left", tables.sink(left), where="n < 4")
            return writer.to("right", tables.sink(right))

        report = crash_at_the_points_of_many_sinks(session, tables, pipeline)
        assert report.expected_rows == 3 + 6
        self.tell("append, many sinks", report)

    def test_a_write_that_failed_after_its_commit_is_found(
        self, session: SparkSession, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = tables.new_table()
        sink: Any = tables.sink(table)
        sink.write_batch(tables.batch(0), session.range(1))

        def fail(identity: object) -> None:
            raise RuntimeError("boom")

        with monkeypatch.context() as patched:
            patched.setattr(sink._latest, "remember", fail)
            with pytest.raises(RuntimeError, match="boom"):
                sink.write_batch(tables.batch(1), session.range(1, 2))
        sink.write_batch(tables.batch(1), session.range(1, 2))
        assert tables.numbers(session, table) == [0, 1]
