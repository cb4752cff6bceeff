"""The sinks that come with Spark and need no files: noop, console, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import read_stream, write_stream
from penstock.errors import UnknownSinkError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.sinks.batch_sinks import V1Sink, V2Sink
from tests.streams import Numbers, column, log_entries


@pytest.fixture
def printed(pytestconfig: pytest.Config) -> Callable[[], str]:
    """The output of the JVM, whose stdout was set before the first test."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    if not capture.is_globally_capturing():
        pytest.skip("nothing is captured under -s")
    return lambda: str(capture.read_global_capture().out)


def test_noop_takes_everything_and_keeps_nothing(session: SparkSession) -> None:
    query = write_stream(read_stream(Numbers(5), session)).format("noop").start()
    query.processAllAvailable()
    query.stop()
    assert query.recentProgress[0].numInputRows == 5


def test_console_shows_each_batch_as_spark_does(
    session: SparkSession, printed: Callable[[], str]
) -> None:
    rows = read_stream(Numbers(2), session)
    write_stream(rows).format("console").trigger(once=True).start().awaitTermination()
    shown = printed()
    assert "Batch: 0" in shown
    assert "|  0|\n|  1|" in shown


def test_console_heeds_its_options(session: SparkSession, printed: Callable[[], str]) -> None:
    rows = read_stream(Numbers(9), session).select(F.repeat(F.lit("long"), 10).alias("text"))
    writer = write_stream(rows).format("console").option("numRows", 1).option("truncate", False)
    writer.trigger(once=True).start().awaitTermination()
    shown = printed()
    assert "long" * 10 in shown
    assert "only showing top 1 row" in shown


def test_memory_in_append_mode_holds_the_rows_of_all_batches(session: SparkSession) -> None:
    rows = read_stream(Numbers(6, at_most=2), session)
    query = write_stream(rows).format("memory").queryName("memory_append").start()
    query.processAllAvailable()
    assert column(session.table("memory_append")) == [0, 1, 2, 3, 4, 5]
    assert [p.sink.numOutputRows for p in query.recentProgress[:3]] == [2, 2, 2]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("complete", [(0, 3), (1, 3)]),
        ("update", [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]),
    ],
)
def test_memory_holds_what_the_output_mode_says(
    session: SparkSession, mode: str, expected: list[tuple[int, int]]
) -> None:
    rows = read_stream(Numbers(6, at_most=2), session)
    counts = rows.groupBy((F.col("n") % 2).alias("odd")).count()
    name = f"memory_{mode}"
    query = write_stream(counts).format("memory").queryName(name).outputMode(mode).start()
    query.processAllAvailable()
    assert sorted(tuple(row) for row in session.table(name).collect()) == expected


def test_memory_is_a_table_as_soon_as_start_returns(session: SparkSession) -> None:
    rows = read_stream(Numbers(), session)
    write_stream(rows).format("memory").queryName("memory_at_once").start()
    assert session.table("memory_at_once").schema == rows.schema


def test_memory_needs_a_name(session: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="queryName must be specified for memory sink"):
        write_stream(read_stream(Numbers(), session)).format("memory").start()


def run_to_memory(df: DataFrame, checkpoint: Path, mode: str) -> None:
    writer = write_stream(df).format("memory").queryName("memory_again").outputMode(mode)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()


def test_memory_recovers_in_complete_mode(session: SparkSession, checkpoint: Path) -> None:
    numbers = Numbers(2)
    counts = read_stream(numbers, session).groupBy().count()
    run_to_memory(counts, checkpoint, "complete")
    numbers.available = 3
    run_to_memory(counts, checkpoint, "complete")
    assert column(session.table("memory_again")) == [3]


@pytest.mark.parametrize("mode", ["append", "update"])
def test_memory_does_not_recover_in_other_modes(
    session: SparkSession, checkpoint: Path, mode: str
) -> None:
    rows = read_stream(Numbers(2), session)
    run_to_memory(rows, checkpoint, mode)
    with pytest.raises(AnalysisException, match="does not support recovering from checkpoint"):
        run_to_memory(rows, checkpoint, mode)
    assert log_entries(checkpoint, "offsets") == [0]


def test_what_is_no_sink_is_refused(spark: SparkSession) -> None:
    jvm = Jvm.of(spark)
    no_sink = jvm.uuid("7d8f7a5e-8c1f-4a8e-9d55-0f1f3f1b0c11")
    with pytest.raises(UnknownSinkError, match="unknown sink type for 7d8f7a5e"):
        V1Sink(spark, no_sink)
    with pytest.raises(UnknownSinkError, match="unknown sink type for 7d8f7a5e"):
        V2Sink(jvm, no_sink)
