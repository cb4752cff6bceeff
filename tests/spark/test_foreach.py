"""User-defined sinks: foreachBatch, foreach, and a PythonSink."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import PythonSink, StreamingQueryException, read_stream, write_stream
from penstock.spark.jvm.pyspark_api import condition_of
from tests.streams import Numbers, StandingNumbers, column, log_entries, run_available

# foreachBatch


def test_each_batch_comes_once_with_its_id(session: SparkSession, checkpoint: Path) -> None:
    seen: list[tuple[int, list[int]]] = []
    rows = read_stream(StandingNumbers(5, at_most=2), session)
    run_available(rows, lambda df, batch: seen.append((batch, column(df))), checkpoint)
    assert seen == [(0, [0, 1]), (1, [2, 3]), (2, [4])]


def test_the_batch_is_an_ordinary_frame_of_the_query_s_own_session(
    session: SparkSession, checkpoint: Path
) -> None:
    seen: list[dict[str, Any]] = []

    def look(df: DataFrame, batch_id: int) -> None:
        df.createOrReplaceTempView("batch")
        seen.append(
            {
                "streaming": df.isStreaming,
                "sum": df.sparkSession.sql("select sum(n) from batch").head(),
                "cbo": df.sparkSession.conf.get("spark.sql.cbo.enabled"),
                "session": df.sparkSession._jsparkSession.sessionUUID(),
                "joined": column(df.join(df.sparkSession.range(2), F.expr("n = id")), "n"),
            }
        )

    session.conf.set("spark.sql.cbo.enabled", "true")
    run_available(read_stream(Numbers(4), session), look, checkpoint)
    [found] = seen
    assert not found["streaming"]
    assert found["sum"] == (6,)
    assert found["cbo"] == "false"
    assert found["session"] != session._jsparkSession.sessionUUID()
    assert found["joined"] == [0, 1]
    assert not session.catalog.tableExists("batch")


def test_the_frame_may_be_read_twice_and_cached(session: SparkSession, checkpoint: Path) -> None:
    counts: list[int] = []

    def look(df: DataFrame, batch_id: int) -> None:
        df.cache()
        counts.extend([df.count(), df.count(), df.where("n > 1").count()])
        df.unpersist()

    run_available(read_stream(Numbers(4), session), look, checkpoint)
    assert counts == [4, 4, 2]


def test_an_aggregation_reaches_the_function_in_update_mode(session: SparkSession) -> None:
    seen: list[dict[int, int]] = []
    rows = read_stream(Numbers(4, at_most=2), session)
    counts = rows.groupBy((F.col("n") % 2).alias("odd")).count()

    def look(df: DataFrame, batch_id: int) -> None:
        seen.append({row.odd: row["count"] for row in df.collect()})

    query = write_stream(counts).foreachBatch(look).outputMode("update").start()
    query.processAllAvailable()
    assert seen == [{0: 1, 1: 1}, {0: 2, 1: 2}]


def test_a_failing_function_is_the_cause_with_its_own_traceback_and_py4j_is_silent(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def boom(df: DataFrame, batch_id: int) -> None:
        raise KeyError("boom")

    writer = write_stream(read_stream(Numbers(1), session)).foreachBatch(boom)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(StreamingQueryException, match="boom") as caught:
        query.awaitTermination()
    cause = caught.value.__cause__
    assert type(cause) is KeyError
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "boom"
    assert log_entries(checkpoint, "offsets") == [0]
    assert log_entries(checkpoint, "commits") == []
    assert [record.name for record in caplog.records if record.name.startswith("py4j")] == []
    assert cause in [record.exc_info[1] for record in caplog.records if record.exc_info]


def test_a_function_that_exits_ends_the_query_and_nothing_else(session: SparkSession) -> None:
    def leave(df: DataFrame, batch_id: int) -> None:
        raise SystemExit("no more")

    query = write_stream(read_stream(Numbers(1), session)).foreachBatch(leave).start()
    with pytest.raises(StreamingQueryException, match="no more") as caught:
        query.awaitTermination()
    assert type(caught.value.__cause__) is SystemExit
    assert session.range(3).count() == 3


def test_an_error_of_spark_in_the_function_keeps_its_condition(session: SparkSession) -> None:
    def ask_for_too_much(df: DataFrame, batch_id: int) -> None:
        df.select("missing").collect()

    rows = read_stream(Numbers(1), session)
    query = write_stream(rows).foreachBatch(ask_for_too_much).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    cause: Any = caught.value.__cause__
    assert condition_of(cause) == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


# foreach. Functions for the workers are defined locally, so that they are pickled by value.


def test_foreach_hands_every_row_to_a_function(session: SparkSession, tmp_path: Path) -> None:
    directory = str(tmp_path)

    def touch(row: Any) -> None:
        open(f"{directory}/row-{row.n}", "w").close()

    rows = read_stream(Numbers(4), session)
    write_stream(rows).foreach(touch).trigger(once=True).start().awaitTermination()
    assert {path.name for path in tmp_path.glob("row-*")} == {f"row-{n}" for n in range(4)}


def test_foreach_opens_processes_and_closes_per_partition_and_batch(
    session: SparkSession, tmp_path: Path
) -> None:
    class Writer:
        def __init__(self, directory: str) -> None:
            self.directory = directory

        def open(self, partition_id: int, epoch_id: int) -> bool:
            self.lines = [f"open {epoch_id}"]
            self.name = f"{self.directory}/part-{epoch_id}-{partition_id}"
            return True

        def process(self, row: Any) -> None:
            self.lines.append(f"row {row.n}")

        def close(self, error: Exception | None) -> None:
            self.lines.append(f"close {error}")
            with open(self.name, "w") as file:
                file.write("\n".join(self.lines))

    rows = read_stream(StandingNumbers(4, at_most=2), session).coalesce(1)
    writer = write_stream(rows).foreach(Writer(str(tmp_path)))
    writer.trigger(availableNow=True).start().awaitTermination()
    written = {path.name: path.read_text().split("\n") for path in tmp_path.glob("part-*")}
    assert written == {
        "part-0-0": ["open 0", "row 0", "row 1", "close None"],
        "part-1-0": ["open 1", "row 2", "row 3", "close None"],
    }


def test_foreach_fails_the_query_with_the_error_of_the_function(session: SparkSession) -> None:
    def fail(row: Any) -> None:
        raise ValueError("not this row")

    query = write_stream(read_stream(Numbers(1), session)).foreach(fail).start()
    with pytest.raises(StreamingQueryException, match="not this row"):
        query.awaitTermination()


def test_foreach_refuses_what_cannot_process(session: SparkSession) -> None:
    with pytest.raises(PySparkAttributeError, match="process"):
        write_stream(read_stream(Numbers(), session)).foreach(object())


# A sink written in Python.


class Ledger(PythonSink):
    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        self.batches[batch_id] = column(df)


def test_a_python_sink_takes_each_batch_and_gives_its_name_to_progress(
    session: SparkSession,
) -> None:
    ledger = Ledger()
    rows = read_stream(StandingNumbers(3, at_most=2), session)
    query = write_stream(rows).sink(ledger).trigger(availableNow=True).start()
    query.awaitTermination()
    assert ledger.batches == {0: [0, 1], 1: [2]}
    assert query.recentProgress[0].sink.description == "Ledger[python]"


def test_a_batch_that_was_not_committed_comes_again_the_same(
    session: SparkSession, checkpoint: Path
) -> None:
    class Failing(Ledger):
        def add_batch(self, batch_id: int, df: DataFrame) -> None:
            super().add_batch(batch_id, df)
            if batch_id == 1:
                raise OSError("the disk is full")

    def start(sink: PythonSink, at_most: int) -> None:
        rows = read_stream(StandingNumbers(6, at_most=at_most), session)
        writer = write_stream(rows).sink(sink).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    failing, working = Failing(), Ledger()
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        start(failing, at_most=2)
    start(working, at_most=6)
    assert failing.batches == {0: [0, 1], 1: [2, 3]}
    assert working.batches == {1: [2, 3], 2: [4, 5]}
