"""What the sinks of Delta and Iceberg do alike, beside what all sinks do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import DataStreamWriter, write_stream
from penstock.testing import Workspace
from tests.sinks.runs import run, write
from tests.sinks.sink_contract import SinkContract, Tables, crash_at_the_points_of_many_sinks


class LakeTables(Tables):
    """The tables of Delta or Iceberg."""

    partitioned: Mapping[str, Any] = {"partition_by": ["k"]}

    @abstractmethod
    def start_streaming(self, writer: Any, table: str) -> Any:
        """Start a query with the own streaming sink of the table's format."""


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

    def test_a_batch_of_the_own_streaming_sink_is_not_written_again(
        self, session: SparkSession, checkpoint: Path, tables: LakeTables, tmp_path: Path
    ) -> None:
        table, source = tables.new_table(), tmp_path / "in"
        source.mkdir()
        lines = session.readStream.schema("n long").json(str(source))
        for number in range(3):
            (source / f"{number}.json").write_text(f'{{"n": {number}}}')
            if number == 2:
                run(write_stream(lines).sink(tables.sink(table)), checkpoint)
                continue
            writer = lines.writeStream.option("checkpointLocation", str(checkpoint))
            tables.start_streaming(writer.trigger(availableNow=True), table).awaitTermination()
            (checkpoint / "commits" / str(number)).unlink()  # as after a crash
            (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
            run(write_stream(lines).sink(tables.sink(table)), checkpoint)
            assert tables.numbers(session, table) == list(range(number + 1))
        assert tables.numbers(session, table) == [0, 1, 2]

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
