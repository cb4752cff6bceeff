"""Crash tests of pipelines on Spark, with sinks that are idempotent and sinks that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock import DataStreamWriter, write_stream
from penstock.api.install import is_installed
from penstock.engine.faults import OF_EVERY_QUERY
from penstock.errors import ExecutionError
from penstock.testing import FaultPoint, Workspace, crash_test
from penstock.testing.crash_faults import STOP_POINTS

INPUT = [[1, 2], [3, 4, 5], [6]]
ROWS: dict[str, Any] = {"input": INPUT, "schema": "n long"}


def append_blindly(work: Workspace) -> DataStreamWriter:
    def append(df: DataFrame, batch_id: int) -> None:
        with open(work.output, "a") as file:
            file.writelines(f"{row.n}\n" for row in df.collect())

    return write_stream(work.input).foreachBatch(append)


def replace_by_batch_id(work: Workspace) -> DataStreamWriter:
    def replace(df: DataFrame, batch_id: int) -> None:
        folder = Path(work.output)
        folder.mkdir(exist_ok=True)
        (folder / str(batch_id)).write_text("".join(f"{row.n}\n" for row in df.collect()))

    return write_stream(work.input).foreachBatch(replace)


def lines_of_output(work: Workspace) -> list[int]:
    output = Path(work.output)
    files = output.iterdir() if output.is_dir() else [output]
    return [int(line) for file in files for line in file.read_text().split()]


def test_the_duplicates_of_a_sink_that_only_appends_are_reported(session: SparkSession) -> None:
    report = crash_test(
        append_blindly,
        INPUT,
        schema="n long",
        read_output=lines_of_output,
        spark=session,
        points=["before_sink", "after_sink", "before_commit_log", "after_commit_log"],
    )
    assert not is_installed()
    assert str(report).splitlines() == [
        "crash at           batch  delivered again  output",
        "before_sink        1      -                exactly once",
        "after_sink         1      batch 1          3 duplicates of batch 1: (3,), (4,), (5,)",
        "before_commit_log  1      batch 1          3 duplicates of batch 1: (3,), (4,), (5,)",
        "after_commit_log   1      -                exactly once",
        "",
        "6 rows without a crash; 4 crashes: 2 exactly once, 2 duplicates.",
    ]


@pytest.mark.extended
def test_a_sink_that_uses_the_batch_id_is_exactly_once_at_every_point(
    session: SparkSession,
) -> None:
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    report = crash_test(
        replace_by_batch_id, INPUT, schema="n long", read_output=lines_of_output, spark=session
    )
    report.check()
    crashed = {trial.crashed_at.point for trial in report.trials}
    assert crashed == set(OF_EVERY_QUERY) - STOP_POINTS
    assert report.not_passed == []
    again = [t.crashed_at.point.value for t in report.trials if t.delivered_again]
    assert again == ["after_sink", "before_commit_log"]


def test_a_stateful_query_into_files_in_every_batch(session: SparkSession) -> None:
    def pipeline(work: Workspace) -> StreamingQuery:
        parities = work.input.select((F.col("n") % 2).alias("parity")).dropDuplicates()
        # Started as in a program that is not written for crash tests.
        return (
            parities.writeStream.format("parquet")
            .option("checkpointLocation", work.checkpoint)
            .start(work.output)
        )

    report = crash_test(
        pipeline,  # type: ignore[arg-type]  # the type is PySpark's, the value Penstock's
        [[1], [3, 2], [5]],
        schema="n long",
        read_output=lambda work: work.spark.read.parquet(work.output),
        spark=session,
        points=[FaultPoint.AFTER_SINK],
        every_batch=True,
    )
    report.check()
    assert [trial.crashed_at.batch_id for trial in report.trials] == [0, 1, 2]
    assert report.expected_rows == 2


def test_the_rows_that_a_pipeline_loses_are_reported(session: SparkSession) -> None:
    seen: set[tuple[str, int]] = set()

    def forgets_its_output(work: Workspace) -> DataStreamWriter:
        def write(df: DataFrame, batch_id: int) -> None:
            # Marks the batch as written before it is: after a crash it is skipped.
            if (work.name, batch_id) not in seen:
                seen.add((work.name, batch_id))
                if batch_id != 1 or work.name == "uncrashed":
                    with open(work.output, "a") as file:
                        file.writelines(f"{row.n}\n" for row in df.collect())

        return write_stream(work.input).foreachBatch(write)

    report = crash_test(
        forgets_its_output,
        INPUT,
        schema="n long",
        read_output=lines_of_output,
        spark=session,
        points=["after_sink"],
    )
    assert report.trials[0].describe() == "3 lost: (3,), (4,), (5,)"


def test_input_by_a_function_and_a_pipeline_that_waits_itself(session: SparkSession) -> None:
    def lay_out(work: Workspace) -> None:
        (work.folder / "in").mkdir()
        (work.folder / "in" / "a.txt").write_text("1\n2\n")

    def pipeline(work: Workspace) -> None:
        lines = work.spark.readStream.text(str(work.folder / "in"))
        query = write_stream(lines).format("text").option("checkpointLocation", work.checkpoint)
        query.trigger(availableNow=True).start(work.output).awaitTermination()

    def read(work: Workspace) -> DataFrame:
        return work.spark.read.text(work.output)

    report = crash_test(pipeline, lay_out, read_output=read, spark=session, points=["after_sink"])
    report.check()
    assert [t.crashed_at.batch_id for t in report.trials] == [0]
    assert report.not_passed == []


def test_a_pipeline_that_does_not_recover(session: SparkSession) -> None:
    def gives_up(work: Workspace) -> DataStreamWriter:
        if Path(work.checkpoint).exists():
            raise ValueError("I have been here before\nand did not like it")
        return append_blindly(work)

    def read(work: Workspace) -> list[int]:
        return lines_of_output(work)

    report = crash_test(
        gives_up, INPUT, schema="n long", read_output=read, spark=session, points=["after_sink"]
    )
    assert report.trials[0].describe() == "did not recover: ValueError: I have been here before"


@pytest.mark.parametrize(
    ("pipeline", "arguments", "message"),
    [
        (lambda work: None, {}, "the pipeline ran no batch"),
        (lambda work: 5, {}, "must return a writer or a query of Penstock, not 5"),
        (lambda work: work.input, {}, "workspace.input is not available"),
        (append_blindly, {"input": INPUT}, "needs the argument schema"),
        (append_blindly, {"points": ["nowhere"]}, "'nowhere' is not a valid FaultPoint"),
        (append_blindly, {"points": ["before_stop_sources"]}, "Use penstock crashtest"),
        (append_blindly, {**ROWS, "points": ["after_sink", "before_purge"]}, "not reach before_pu"),
        (append_blindly, {**ROWS, "points": ["after_sink"]}, "read_output returned no rows"),
    ],
)
def test_pipelines_that_cannot_be_tested(
    session: SparkSession, pipeline: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((ExecutionError, ValueError), match=message):
        crash_test(pipeline, read_output=lambda work: [], spark=session, **arguments)
