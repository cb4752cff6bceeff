"""What every sink that is exactly once does, on every kind of table."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock import DataStreamWriter, PythonSink, SinkBatch, StreamingQueryException, write_stream
from penstock.engine.faults import OF_MANY_SINKS, FaultPoint
from penstock.testing import CrashReport, Workspace, crash_test
from tests.sinks.runs import numbers, rewind, run, write

INPUT = [[(1, "a"), (2, "b")], [(3, "a"), (4, "c"), (5, "c")], [(6, "b")]]
SCHEMA = "n long, k string"
PURGES = {FaultPoint.BEFORE_PURGE, FaultPoint.BETWEEN_PURGES, FaultPoint.AFTER_PURGE}


class Tables(ABC):
    """The tables of one kind, and a query that does not run: another one in each test."""

    partitioned: Mapping[str, Any] = {}
    """The arguments of a sink whose table is partitioned by the column `k`, where there are any."""

    def __init__(self) -> None:
        self.query = str(uuid4())

    @abstractmethod
    def new_table(self) -> str:
        """The name or the path of a table that does not exist."""

    @abstractmethod
    def sink(self, table: str, **arguments: Any) -> PythonSink: ...

    @abstractmethod
    def rows(self, session: SparkSession, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, sorted."""

    def check_recorded(self, session: SparkSession, table: str, batches: Sequence[int]) -> None:
        """Assert that these batches of a query are recorded, if all of them are kept."""

    def numbers(self, session: SparkSession, table: str) -> list[int]:
        return [row[0] for row in self.rows(session, table)]

    def batch(
        self, batch_id: int, planned_at: int | None = 1000, sink: str | None = None
    ) -> SinkBatch:
        """A batch of the query that does not run."""
        return SinkBatch(self.query, batch_id, planned_at, sink)


class SinkContract:
    """Tests for one kind of table, with its fixture `tables`."""

    @pytest.fixture
    def tables(self) -> Tables:
        raise NotImplementedError

    def tell(self, what: str, report: CrashReport) -> None:
        """Called with the report of a crash test."""

    # Queries.

    def test_overwriting_keeps_the_last_batch(
        self, session: SparkSession, checkpoint: Path, tables: Tables
    ) -> None:
        table = tables.new_table()
        counts = numbers(session, 5).groupBy((F.col("n") % 2).alias("k")).count()
        sink = tables.sink(table, mode="overwrite", **tables.partitioned)
        run(write_stream(counts).outputMode("complete").sink(sink), checkpoint)
        assert tables.rows(session, table) == [(0, 3), (1, 2)]
        sink.write_batch(tables.batch(0), session.range(0).selectExpr("id as k", "id as count"))
        assert tables.rows(session, table) == []

    def test_a_query_goes_to_spark_and_back(
        self, session: SparkSession, checkpoint: Path, tables: Tables, tmp_path: Path
    ) -> None:
        table, source = tables.new_table(), tmp_path / "in"
        sink = tables.sink(table)
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
        assert tables.numbers(session, table) == [0, 1, 2]
        tables.check_recorded(session, table, [0, 1, 2])

    # Crashes.

    def test_a_crash_at_any_point_changes_nothing(
        self, session: SparkSession, tables: Tables
    ) -> None:
        names: dict[str, str] = {}

        def pipeline(work: Workspace) -> DataStreamWriter:
            table = names.setdefault(work.name, tables.new_table())
            return write_stream(work.input).sink(tables.sink(table))

        report = crash_test(
            pipeline,
            INPUT,
            schema=SCHEMA,
            spark=session,
            read_output=lambda work: tables.rows(session, names[work.name]),
        )
        report.check()
        assert report.expected_rows == 6
        assert set(report.not_passed) <= OF_MANY_SINKS | PURGES
        self.tell("append", report)

    # Batches that the table has.

    def test_a_batch_that_the_table_has_is_not_written_again(
        self, session: SparkSession, tables: Tables, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = tables.new_table()
        sink = tables.sink(table)
        for writer in (sink, sink, tables.sink(table)):
            writer.write_batch(tables.batch(0), session.range(2))
        assert tables.numbers(session, table) == [0, 1]
        assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []

    def test_a_renamed_sink_does_not_write_a_batch_of_its_former_name(
        self, session: SparkSession, tables: Tables
    ) -> None:
        table, other = tables.new_table(), tables.new_table()
        renamed = SinkBatch(tables.query, 0, 1000, "new", "old")
        for name in (None, "old"):
            query = f"{tables.query}-{name}"
            for sink in (name, "new"):
                identity = SinkBatch(query, 0, 1000, sink, "old" if sink == "new" else None)
                tables.sink(table).write_batch(identity, session.range(1))
        assert tables.numbers(session, table) == [0, 0]
        # Another table than that of the former name has not got the batch.
        tables.sink(table).write_batch(tables.batch(0, sink="old"), session.range(1))
        tables.sink(other).write_batch(renamed, session.range(1))
        assert tables.numbers(session, other) == [0]

    def test_a_rewound_checkpoint_fails_or_is_warned_of(
        self,
        session: SparkSession,
        checkpoint: Path,
        tables: Tables,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        table = tables.new_table()
        sink = tables.sink(table, on_rewind="warn")
        write(session, 6, sink, checkpoint)
        rewind(checkpoint, 0)
        write(session, 8, sink, checkpoint)
        warnings = [r.message for r in caplog.records if "it was rewound" in r.message]
        assert len(warnings) == 2  # batches 1 and 2; batch 3 is new
        assert warnings[0].startswith("Batch 1 of query ")
        assert "has batches up to 2" in warnings[0]
        assert 'name="sink-2"' in warnings[0]
        assert tables.numbers(session, table) == [0, 1, 2, 3, 4, 5, 6, 7]

        rewind(checkpoint, 1)
        with pytest.raises(StreamingQueryException, match="Nothing was written") as caught:
            write(session, 8, tables.sink(table), checkpoint)
        assert 'on_rewind="warn"' in str(caught.value)
        assert 'name="sink-2"' in str(caught.value)
        write(session, 8, tables.sink(table, name="sink-2"), checkpoint)
        assert tables.numbers(session, table) == sorted([*range(8), *range(4, 8)])


def crash_at_the_points_of_many_sinks(
    session: SparkSession,
    tables: Tables,
    pipeline: Callable[[Workspace, str, str], DataStreamWriter],
) -> CrashReport:
    """Crash a query with two sinks, at the fault points that only such a query has.

    `pipeline` gets the tables of its two sinks; the output is that of both.
    """
    names: dict[str, tuple[str, str]] = {}

    def tables_of(work: Workspace) -> tuple[str, str]:
        return names.setdefault(work.name, (tables.new_table(), tables.new_table()))

    def output(work: Workspace) -> list[tuple[Any, ...]]:
        return [
            (place, *row)
            for place, table in zip(("first", "second"), tables_of(work), strict=True)
            for row in tables.rows(session, table)
        ]

    report = crash_test(
        lambda work: pipeline(work, *tables_of(work)),
        INPUT,
        schema=SCHEMA,
        spark=session,
        read_output=output,
        points=["before_sink", "after_sink", *(point.value for point in OF_MANY_SINKS)],
    )
    report.check()
    return report
