"""What the sinks of Delta and Iceberg do alike."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import (
    DataStreamWriter,
    PythonSink,
    SinkBatch,
    StreamingQueryException,
    write_stream,
)
from penstock.engine.faults import OF_MANY_SINKS
from penstock.testing import CrashReport, Workspace, crash_test
from tests.sinks.jdbc_contract import INPUT, PURGES, SCHEMA
from tests.sinks.runs import QUERY, batch, numbers, rewind, run, write


class LakeContract:
    """Tests for one kind of table."""

    def new_table(self, folder: Path) -> str:
        """The path or the name of a table that does not exist."""
        raise NotImplementedError

    def sink(self, table: str, **arguments: Any) -> PythonSink:
        raise NotImplementedError

    def rows(self, session: SparkSession, table: str) -> Sequence[Any]:
        """The rows of a table, sorted."""
        raise NotImplementedError

    def tell(self, what: str, report: CrashReport) -> None:
        """Called with the report of a crash test."""

    def numbers(self, session: SparkSession, table: str) -> list[int]:
        return [row[0] for row in self.rows(session, table)]

    def test_batches_are_appended(
        self, session: SparkSession, checkpoint: Path, tmp_path: Path
    ) -> None:
        table = self.new_table(tmp_path)
        sink = self.sink(table)
        write(session, 5, sink, checkpoint)
        write(session, 6, sink, checkpoint)
        assert self.numbers(session, table) == [0, 1, 2, 3, 4, 5]

    def test_overwriting_keeps_the_last_batch(
        self, session: SparkSession, checkpoint: Path, tmp_path: Path
    ) -> None:
        table = self.new_table(tmp_path)
        counts = numbers(session, 5).groupBy((F.col("n") % 2).alias("k")).count()
        sink = self.sink(table, mode="overwrite", partition_by=["k"])
        run(write_stream(counts).outputMode("complete").sink(sink), checkpoint)
        assert self.rows(session, table) == [(0, 3), (1, 2)]

    def test_a_crash_at_any_point_changes_nothing(self, session: SparkSession) -> None:
        tables: dict[str, str] = {}

        def table_of(work: Workspace) -> str:
            return tables.setdefault(work.name, self.new_table(work.folder))

        def pipeline(work: Workspace) -> DataStreamWriter:
            return write_stream(work.input).sink(self.sink(table_of(work)))

        report = crash_test(
            pipeline,
            INPUT,
            schema=SCHEMA,
            spark=session,
            read_output=lambda work: self.rows(session, table_of(work)),
        )
        report.check()
        assert report.expected_rows == 6
        assert set(report.not_passed) <= OF_MANY_SINKS | PURGES
        self.tell("append", report)

    def test_a_crash_at_the_points_of_many_sinks_changes_nothing(
        self, session: SparkSession
    ) -> None:
        tables: dict[str, tuple[str, str]] = {}

        def tables_of(work: Workspace) -> tuple[str, str]:
            if work.name not in tables:
                tables[work.name] = (
                    self.new_table(work.folder / "left"),
                    self.new_table(work.folder / "right"),
                )
            return tables[work.name]

        def pipeline(work: Workspace) -> DataStreamWriter:
            left, right = tables_of(work)
            writer = write_stream(work.input).to("left", self.sink(left), where="n < 4")
            return writer.to("right", self.sink(right))

        def output(work: Workspace) -> list[tuple[Any, ...]]:
            left, right = tables_of(work)
            return [
                *(("left", *row) for row in self.rows(session, left)),
                *(("right", *row) for row in self.rows(session, right)),
            ]

        points = ["before_sink", "after_sink", *(point.value for point in OF_MANY_SINKS)]
        report = crash_test(
            pipeline, INPUT, schema=SCHEMA, spark=session, read_output=output, points=points
        )
        report.check()
        assert report.expected_rows == 3 + 6
        self.tell("append, many sinks", report)

    def test_a_batch_that_the_table_has_is_not_written_again(
        self, session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.new_table(tmp_path)
        sink = self.sink(table)
        for writer in (sink, sink, self.sink(table)):
            writer.write_batch(batch(0), session.range(2))
        assert self.numbers(session, table) == [0, 1]
        assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []

    def test_a_write_that_failed_after_its_commit_is_found(
        self, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = self.new_table(tmp_path)
        sink: Any = self.sink(table)
        sink.write_batch(batch(0), session.range(1))

        def fail(identity: object) -> None:
            raise RuntimeError("boom")

        with monkeypatch.context() as patched:
            patched.setattr(sink._latest, "remember", fail)
            with pytest.raises(RuntimeError, match="boom"):
                sink.write_batch(batch(1), session.range(1, 2))
        sink.write_batch(batch(1), session.range(1, 2))
        assert self.numbers(session, table) == [0, 1]

    def test_a_renamed_sink_does_not_write_a_batch_of_its_former_name(
        self, session: SparkSession, tmp_path: Path
    ) -> None:
        table = self.new_table(tmp_path)
        for former in (None, "old"):
            query = f"{QUERY[:-1]}{former or 0}"
            self.sink(table).write_batch(SinkBatch(query, 0, 1000, former), session.range(1))
            renamed = SinkBatch(query, 0, 1000, "new", "old")
            self.sink(table).write_batch(renamed, session.range(1))
        assert self.numbers(session, table) == [0, 0]

    def test_a_rewound_checkpoint_is_warned_of(
        self,
        session: SparkSession,
        checkpoint: Path,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        table = self.new_table(tmp_path)
        sink = self.sink(table)
        write(session, 6, sink, checkpoint)
        rewind(checkpoint, 0)
        write(session, 8, sink, checkpoint)
        warnings = [r.message for r in caplog.records if "it was rewound" in r.message]
        assert len(warnings) == 2  # batches 1 and 2; batch 3 is new
        assert warnings[0].startswith("Batch 1 of query ")
        assert "has batches up to 2" in warnings[0]
        assert self.numbers(session, table) == [0, 1, 2, 3, 4, 5, 6, 7]

        rewind(checkpoint, 2)
        with pytest.raises(StreamingQueryException, match="Nothing was written"):
            write(session, 8, self.sink(table, on_rewind="fail"), checkpoint)
        write(session, 8, self.sink(table, name="sink-2"), checkpoint)
        assert self.numbers(session, table) == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7]

    def test_a_query_goes_to_spark_and_back(
        self, session: SparkSession, checkpoint: Path, tmp_path: Path
    ) -> None:
        table, source = self.new_table(tmp_path), tmp_path / "in"
        sink = self.sink(table)
        source.mkdir()
        for batch_id in range(3):
            (source / f"{batch_id}.json").write_text(f'{{"n": {batch_id}}}')
            lines = session.readStream.schema("n long").json(str(source))
            if batch_id == 1:
                writer = lines.writeStream.foreachBatch(lambda df, n: sink.add_batch(n, df))
                writer = writer.option("checkpointLocation", str(checkpoint))
                writer.trigger(availableNow=True).start().awaitTermination()
            else:
                run(write_stream(lines).sink(sink), checkpoint)
        assert self.numbers(session, table) == [0, 1, 2]
