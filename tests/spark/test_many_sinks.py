"""Queries with many sinks on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import BatchWriter, PythonSink, StreamingQueryException, read_stream, write_stream
from penstock.errors import ExecutionError, SinkFailedError
from tests.spark.kept_batches import Batches, entries, fail, keep, run
from tests.streams import Numbers, StandingNumbers, column, log_entries, progress_fields


@pytest.mark.core
def test_every_sink_gets_every_batch_and_has_an_entry_for_each(
    session: SparkSession, checkpoint: Path
) -> None:
    lake: Batches = {}
    alerts: Batches = {}
    rows = read_stream(StandingNumbers(5, at_most=2), session)
    run(write_stream(rows).to("lake", keep(lake)).to("alerts", keep(alerts)), checkpoint)
    assert lake == alerts == {0: [0, 1], 1: [2, 3], 2: [4]}
    assert entries(checkpoint, "lake") == entries(checkpoint, "alerts") == [0, 1, 2]
    assert log_entries(checkpoint, "commits") == [0, 1, 2]


@pytest.mark.core
def test_a_batch_is_computed_once_and_released(session: SparkSession, checkpoint: Path) -> None:
    computed = session.sparkContext.accumulator(0)
    counted = F.udf(lambda n: [n, computed.__iadd__(1)][0], "long")

    rows = read_stream(Numbers(4), session).select(counted("n").alias("n"))
    first: Batches = {}
    second: Batches = {}
    writer = write_stream(rows).to("first", keep(first)).to("second", keep(second))
    run(writer.to("third", lambda df, batch_id: None), checkpoint)
    assert first == second == {0: [0, 1, 2, 3]}
    assert computed.value == 4
    assert session.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_a_sink_gets_the_rows_of_its_condition(session: SparkSession, checkpoint: Path) -> None:
    large: Batches = {}
    even: Batches = {}
    is_even: Column = F.col("n") % 2 == 0
    writer = write_stream(read_stream(Numbers(5), session))
    run(
        writer.to("large", keep(large), where="n > 2").to("even", keep(even), where=is_even),
        checkpoint,
    )
    assert large == {0: [3, 4]}
    assert even == {0: [0, 2, 4]}


class Keeping(PythonSink):
    def __init__(self) -> None:
        self.batches: Batches = {}

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        self.batches[batch_id] = column(df)


def test_a_python_sink_and_a_batch_writer_are_sinks(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    sink, files = Keeping(), tmp_path / "files"
    writer = BatchWriter("json").option("path", str(files)).mode("append")
    rows = read_stream(StandingNumbers(3, at_most=2), session)
    run(write_stream(rows).to("kept", sink).to("files", writer), checkpoint)
    assert sink.batches == {0: [0, 1], 1: [2]}
    assert column(session.read.json(str(files)).orderBy("n")) == [0, 1, 2]


def test_a_batch_writer_by_batch_replaces_a_batch_that_it_writes_again(
    session: SparkSession, tmp_path: Path
) -> None:
    writer = BatchWriter("parquet").option("path", str(tmp_path / "files")).by_batch("b")
    for batch_id in (0, 1, 1):
        writer.add_batch(batch_id, session.range(batch_id, batch_id + 2))
    found = session.read.parquet(str(tmp_path / "files")).orderBy("b", "id").collect()
    assert [tuple(row) for row in found] == [(0, 0), (1, 0), (1, 1), (2, 1)]
    with pytest.raises(ValueError, match="needs the option path"):
        BatchWriter("parquet").by_batch().add_batch(0, session.range(1))


def test_two_batch_writers_with_the_same_directories_are_refused(session: SparkSession) -> None:
    lake = BatchWriter("parquet").option("path", "/lake").by_batch()
    writer = write_stream(read_stream(Numbers(1), session)).to("low", lake, where="n < 5")
    with pytest.raises(ValueError, match=r"'low' and 'high' both write .* /lake/batch=<batch>"):
        writer.to("high", BatchWriter("json").option("PATH", "/lake/").by_batch())
    writer.to("high", lake.by_batch("other")).to("appended", BatchWriter().option("path", "/lake"))


def test_a_batch_writer_writes_to_a_table(session: SparkSession) -> None:
    writer = BatchWriter().table("many_sinks_table").partitionBy("k").option("compression", "none")
    writer.add_batch(0, session.range(3).withColumn("k", F.lit("a")))
    writer.add_batch(1, session.range(2).withColumn("k", F.lit("b")))
    assert session.table("many_sinks_table").where("k = 'a'").count() == 3
    assert str(writer) == "BatchWriter[many_sinks_table]"
    session.sql("drop table many_sinks_table")


# Failures.


@pytest.mark.core
def test_after_a_failure_only_the_sinks_without_an_entry_get_the_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    lake: Batches = {}
    rows = read_stream(Numbers(3), session)
    broken = write_stream(rows).to("lake", keep(lake)).to("alerts", fail).to("last", fail)
    with pytest.raises(StreamingQueryException) as caught:
        run(broken, checkpoint)
    error = caught.value.__cause__
    assert isinstance(error, SinkFailedError)
    assert isinstance(error.__cause__, KeyError)
    assert str(error) == (
        "Sink alerts failed in batch 0: KeyError: 'boom'\n"
        "Finished, and not called again for this batch: lake.\n"
        "Not called: last."
    )
    assert "terminated with exception: Sink alerts failed in batch 0" in str(caught.value)
    assert log_entries(checkpoint, "commits") == []
    assert entries(checkpoint, "lake") == [0]
    assert session.sparkContext._jsc.getPersistentRDDs().isEmpty()

    alerts: Batches = {}
    last: Batches = {}
    rows = read_stream(Numbers(3), session)
    mended = write_stream(rows).to("lake", keep(lake)).to("alerts", keep(alerts))
    run(mended.to("last", keep(last)), checkpoint)
    assert lake == alerts == last == {0: [0, 1, 2]}
    assert log_entries(checkpoint, "commits") == [0]


def test_a_sink_is_called_again_as_often_as_it_says(
    session: SparkSession, checkpoint: Path
) -> None:
    calls: list[int] = []

    def stumble(df: DataFrame, batch_id: int) -> None:
        calls.append(df.count())
        if len(calls) < 3:
            raise OSError("not now")

    writer = write_stream(read_stream(Numbers(2), session)).to(
        "slow", stumble, retries=2, backoff=0
    )
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    assert calls == [2, 2, 2]
    assert query.lastProgress is not None
    assert progress_fields(query.recentProgress[0])["sink"]["metrics"]["slow.attempts"] == "3"


def test_a_stop_ends_the_wait_for_another_attempt(session: SparkSession) -> None:
    failed = threading.Event()

    def fail_and_tell(df: DataFrame, batch_id: int) -> None:
        failed.set()
        raise OSError("not now")

    rows = read_stream(Numbers(1), session)
    query = write_stream(rows).to("slow", fail_and_tell, retries=9, backoff=3600).start()
    assert failed.wait(60)
    query.stop()
    assert query.exception() is None
    assert not query.isActive


# Parallel sinks.


@pytest.mark.core
def test_parallel_sinks_run_at_the_same_time_each_in_a_pool_of_its_own(
    session: SparkSession, checkpoint: Path
) -> None:
    together = threading.Barrier(3, timeout=60)
    seen: dict[str, tuple[str | None, str | None, list[int], Any]] = {}

    def sink(name: str) -> Callable[[DataFrame, int], None]:
        def write(df: DataFrame, batch_id: int) -> None:
            together.wait()
            context = df.sparkSession.sparkContext
            seen[name] = (
                context.getLocalProperty("spark.scheduler.pool"),
                context.getLocalProperty("streaming.sql.batchId"),
                column(df),
                SparkSession.getActiveSession(),
            )

        return write

    writer = write_stream(read_stream(Numbers(3), session)).queryName("many")
    for name in ("a", "b"):
        writer.to(name, sink(name), parallel=True)
    run(writer.to("c", sink("c")), checkpoint)
    assert {name: found[:3] for name, found in seen.items()} == {
        "a": ("many.a", "0", [0, 1, 2]),
        "b": ("many.b", "0", [0, 1, 2]),
        "c": (None, "0", [0, 1, 2]),
    }
    assert [entries(checkpoint, name) for name in "abc"] == [[0], [0], [0]]


def test_a_parallel_sink_that_fails_leaves_the_others_to_finish(
    session: SparkSession, checkpoint: Path
) -> None:
    has_failed = threading.Event()
    slow: Batches = {}

    def fail_first(df: DataFrame, batch_id: int) -> None:
        has_failed.set()
        raise KeyError("boom")

    def finish(df: DataFrame, batch_id: int) -> None:
        assert has_failed.wait(60)
        keep(slow)(df, batch_id)

    writer = write_stream(read_stream(Numbers(2), session))
    writer.to("broken", fail_first, parallel=True).to("slow", finish, parallel=True)
    with pytest.raises(StreamingQueryException, match="Sink broken failed in batch 0") as caught:
        run(writer, checkpoint)
    assert isinstance(caught.value.__cause__, SinkFailedError)
    assert slow == {0: [0, 1]}
    assert entries(checkpoint, "slow") == [0]


def test_a_stop_cancels_the_jobs_of_parallel_sinks(session: SparkSession) -> None:
    running = threading.Barrier(3, timeout=60)

    def hang(df: DataFrame, batch_id: int) -> None:
        running.wait()
        df.select(F.udf(lambda n: threading.Event().wait(600), "boolean")("n")).collect()

    writer = write_stream(read_stream(Numbers(1), session))
    writer.to("a", hang, parallel=True).to("b", hang, parallel=True)
    query = writer.start()
    running.wait()
    query.stop()
    assert query.exception() is None


# Progress and arguments.


def test_progress_has_the_sinks_as_metrics_of_the_sink(session: SparkSession) -> None:
    rows = read_stream(Numbers(3), session)
    query = write_stream(rows).to("lake", keep({})).to("alerts", keep({}), where="n > 1").start()
    query.processAllAvailable()
    sink = progress_fields(query.recentProgress[0])["sink"]
    assert sink["description"] == "ManySinks[lake: take, alerts: take]"
    assert sink["numOutputRows"] == 3
    assert sink["metrics"]["lake.status"] == sink["metrics"]["alerts.status"] == "written"
    assert int(sink["metrics"]["alerts.durationMs"]) >= 0


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ä", "x" * 101])
def test_a_name_that_cannot_be_a_directory_is_refused(session: SparkSession, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a sink"):
        write_stream(read_stream(Numbers(1), session)).to(name, fail)


def test_invalid_arguments_are_refused(session: SparkSession) -> None:
    writer = write_stream(read_stream(Numbers(1), session)).to("a", fail, replaces="old")
    with pytest.raises(ValueError, match="already a sink of the name 'A'"):
        writer.to("A", fail)
    with pytest.raises(ValueError, match="already a sink of the name 'old'"):
        writer.to("old", fail)
    with pytest.raises(ValueError, match="'b' cannot replace 'a', which is a sink as well"):
        writer.to("b", fail, replaces="a")
    with pytest.raises(ValueError, match="must not be negative"):
        writer.to("b", fail, retries=-1)
    with pytest.raises(TypeError, match="must be a function"):
        writer.to("b", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a SQL expression or a Column"):
        writer.to("b", fail, where=7)  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match="has no other sink"):
        writer.start("/tmp/x")
    with pytest.raises(ExecutionError, match="has no other sink"):
        writer.toTable("t")
    with pytest.raises(ExecutionError, match="also given parquet"):
        writer.format("parquet").start()
