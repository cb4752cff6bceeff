"""The writer: PySpark's methods, PySpark's errors, and the triggers that are not supported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark.sql.streaming
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter as PySparkWriter

import penstock
from penstock import DataStreamWriter, StreamingQuery, read_stream, write_stream
from penstock.errors import UnsupportedError
from tests.streams import Numbers, column, log_entries

Writer = Any
"""PySpark's writer or Penstock's; both have the same methods."""


def streaming(session: SparkSession) -> DataFrame:
    return session.readStream.format("rate").load()


MISTAKES: dict[str, Callable[[Writer], Any]] = {
    "empty output mode": lambda w: w.outputMode(""),
    "output mode that is not a string": lambda w: w.outputMode(3),
    "unknown output mode": lambda w: w.outputMode("sideways"),
    "empty name": lambda w: w.queryName(" "),
    "no trigger": lambda w: w.trigger(),
    "two triggers": lambda w: w.trigger(once=True, availableNow=True),
    "empty interval": lambda w: w.trigger(processingTime=""),
    "interval that is none": lambda w: w.trigger(processingTime="soon"),
    "negative interval": lambda w: w.trigger(processingTime="-1 second"),
    "once that is not": lambda w: w.trigger(once=False),
    "available now that is not": lambda w: w.trigger(availableNow=False),
    "empty continuous": lambda w: w.trigger(continuous=""),
    "foreach of nothing": lambda w: w.foreach(None),
    "foreach without process": lambda w: w.foreach(object()),
    "foreach that cannot open": lambda w: w.foreach(WithBrokenOpen()),
    "unknown format": lambda w: w.format("no_such_format").start(),
    "format that has no sink": lambda w: w.format("rate").start(),
    "no checkpoint": lambda w: w.format("parquet").start("/nowhere"),
    "no path": lambda w: w.format("parquet").option("checkpointLocation", "/nowhere").start(),
    "two paths": lambda w: w.format("parquet").option("path", "/a").start("/b"),
    "files in complete mode": lambda w: w.format("parquet").outputMode("complete").start("/a"),
    "memory without a name": lambda w: w.format("memory").start(),
    "partitioned memory": lambda w: (
        w.format("memory").queryName("partitioned").partitionBy("value").start()
    ),
    "partitioned foreach": lambda w: w.partitionBy("value").foreach(print).start(),
    "unknown partition": lambda w: w.format("parquet").partitionBy("missing").start("/a"),
    "complete without aggregation": lambda w: w.format("noop").outputMode("complete").start(),
    "hive": lambda w: w.format("hive").start(),
    "unknown catalog": lambda w: w.toTable("no_such_catalog.a.b"),
    "bad table name": lambda w: w.toTable("a b"),
}


class WithBrokenOpen:
    open = "not a method"

    def process(self, row: Any) -> None: ...


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_invalid_call_raises_pysparks_error(session: SparkSession, mistake: str) -> None:
    make = MISTAKES[mistake]
    expected = outcome_of(make, streaming(session).writeStream)
    assert outcome_of(make, write_stream(streaming(session))) == expected


def outcome_of(make: Callable[[Writer], Any], writer: Writer) -> tuple[str, str | None]:
    """The class and the condition of the exception that is raised."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any, to be compared
        make(writer)
    condition = getattr(caught.value, "getCondition", lambda: None)
    return type(caught.value).__name__, condition()


def test_a_batch_data_frame_raises_pysparks_error(session: SparkSession) -> None:
    expected = outcome_of(lambda frame: frame.writeStream, session.range(1))
    assert outcome_of(lambda frame: write_stream(frame), session.range(1)) == expected


def test_an_aggregation_in_append_mode_raises_pysparks_error(session: SparkSession) -> None:
    counts = streaming(session).groupBy("value").count()
    expected = outcome_of(lambda w: w.format("noop").start(), counts.writeStream)
    assert outcome_of(lambda w: w.format("noop").start(), write_stream(counts)) == expected


@pytest.mark.parametrize(
    "trigger",
    ["continuous", pytest.param("realTime", marks=pytest.mark.since("4.2", "PySpark's realTime"))],
)
def test_unsupported_triggers_are_refused_with_the_supported_ones(
    session: SparkSession, checkpoint: Path, trigger: str
) -> None:
    writer = write_stream(streaming(session)).format("noop")
    writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(**{trigger: "10 seconds"})  # type: ignore[arg-type]  # one of the two
    with pytest.raises(UnsupportedError, match=r"Use processingTime, once or availableNow"):
        writer.start()
    assert not checkpoint.exists()


@pytest.mark.until("4.1", "no names of sinks")
def test_a_name_for_the_sink_is_refused_where_spark_has_none(session: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="sinks have no names in this version of Spark"):
        write_stream(streaming(session)).name("the_sink")


@pytest.mark.until("4.1", "no realTime in PySpark")
def test_a_trigger_that_pyspark_does_not_have_is_refused_as_it_refuses_it(
    session: SparkSession,
) -> None:
    writers: list[Writer] = [streaming(session).writeStream, write_stream(streaming(session))]
    for writer in writers:
        with pytest.raises(TypeError, match="unexpected keyword argument 'realTime'"):
            writer.trigger(realTime="10 seconds")


def test_the_call_of_sparks_own_engine_in_the_error_works(
    session: SparkSession, checkpoint: Path
) -> None:
    def refused(writer: PySparkWriter) -> str:
        with pytest.raises(UnsupportedError) as caught:
            writer.format("console").trigger(continuous="1 second").start()
        return str(caught.value)

    rows = session.readStream.format("rate").load()
    assert refused(write_stream(rows)).endswith("Spark's own engine: df.writeStream.")
    penstock.install()
    try:
        message = refused(rows.writeStream)
        assert "pyspark.sql.streaming.DataStreamWriter(df) in place of df.writeStream" in message
        assert "until penstock.uninstall()" in message
        spark_s = pyspark.sql.streaming.DataStreamWriter  # type: ignore[attr-defined]
        writer = spark_s(rows).format("noop")
        writer = writer.option("checkpointLocation", str(checkpoint))
        query = writer.trigger(continuous="1 second").start()
        assert not isinstance(query, StreamingQuery)
        query.stop()
    finally:
        penstock.uninstall()


def test_it_has_every_method_of_pyspark_s_writer(session: SparkSession) -> None:
    methods = {name for name in dir(PySparkWriter) if not name.startswith("_")}
    assert methods <= set(dir(DataStreamWriter))
    writer = write_stream(streaming(session))
    assert writer.format("noop").option("a", 1).options(b=True).outputMode("append") is writer
    assert writer.queryName("chained").trigger(once=True).partitionBy("value") is writer


def test_start_takes_what_pyspark_s_start_takes(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    rows = read_stream(Numbers(4), session).withColumn("odd", F.col("n") % 2)
    query = (
        write_stream(rows)
        .trigger(once=True)
        .start(
            path=str(tmp_path / "out"),
            format="json",
            outputMode="append",
            partitionBy="odd",
            queryName="all_arguments",
            checkpointLocation=str(checkpoint),
        )
    )
    query.awaitTermination()
    assert query.name == "all_arguments"
    assert (tmp_path / "out" / "odd=1").is_dir()
    assert column(session.read.json(str(tmp_path / "out")), "n") == [0, 1, 2, 3]


def test_option_names_are_case_insensitive_and_none_removes_an_option(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    rows = read_stream(Numbers(1), session).coalesce(1)
    writer = write_stream(rows).format("csv").trigger(once=True)
    writer.option("CHECKPOINTLOCATION", "/nowhere").option("checkpointlocation", str(checkpoint))
    writer.options(HEADER=True, sep=";").option("sep", None)
    writer.start(str(tmp_path / "out")).awaitTermination()
    assert log_entries(checkpoint, "commits") == [0]
    [part] = (tmp_path / "out").glob("part-*.csv")
    assert part.read_text() == "n\n0\n"


def test_the_last_sink_that_was_set_is_used(session: SparkSession) -> None:
    seen: list[int] = []
    writer = write_stream(read_stream(Numbers(1), session)).foreach(print)
    writer.foreachBatch(lambda df, batch_id: seen.append(batch_id))
    writer.format("memory").queryName("the_last")
    writer.trigger(once=True).start().awaitTermination()
    assert column(session.table("the_last")) == [0]
    assert seen == []


def test_what_cannot_be_called_is_refused(session: SparkSession) -> None:
    writer = write_stream(read_stream(Numbers(1), session))
    with pytest.raises(TypeError, match=r"foreachBatch needs a function \(df, batch_id\), not 3"):
        writer.foreachBatch(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="after_commit must be a function of a BatchInfo, not 3"):
        writer.hooks(after_commit=3)  # type: ignore[arg-type]


def test_a_processing_time_trigger_runs_batch_after_batch(session: SparkSession) -> None:
    rows = read_stream(Numbers(4, at_most=2), session)
    writer = write_stream(rows).format("memory").queryName("timed")
    query = writer.trigger(processingTime="100 milliseconds").start()
    query.processAllAvailable()
    assert column(session.table("timed")) == [0, 1, 2, 3]
