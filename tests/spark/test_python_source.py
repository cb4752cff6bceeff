"""PythonSource: offsets, read limits, the order of calls, and invalid return values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock import PythonSource, StreamingQueryException, read_stream, write_stream
from penstock.engine.read_limit import ReadLimit
from penstock.errors import InvalidBatchError
from tests.streams import (
    Numbers,
    StandingNumbers,
    column,
    eventually_of,
    log_entries,
    logged_offsets,
    run_available,
)


class Steps(PythonSource):
    """Steps through a list of JSON offsets; the rows of a batch are the indices it covers."""

    def __init__(self, positions: list[Any]) -> None:
        self.positions = positions

    def schema(self) -> StructType:
        return StructType([StructField("n", LongType(), False), StructField("at", StringType())])

    def initial_offset(self) -> Any:
        return self.positions[0]

    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        return self.positions[min(self.positions.index(start) + 1, len(self.positions) - 1)]

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        first, last = self.positions.index(start), self.positions.index(end)
        rows = [(n, repr(self.positions[n])) for n in range(first + 1, last + 1)]
        return spark.createDataFrame(rows, self.schema())


POSITIONS: dict[str, list[Any]] = {
    "numbers": [0, 5, 10],
    "negative and large": [-1, 0, 2**63],
    "fractions": [0.5, 1.25, 2.0],
    "texts": ["", "a\nb\u2028\r\x85c", "größer-✓"],
    "booleans and null": [None, False, True],
    "arrays": [[], [0], [0, [1]]],
    "objects": [{}, {"p": {"0": 1}}, {"p": {"0": 2}, "q": None}],
}


@pytest.mark.parametrize("kind", POSITIONS)
def test_an_offset_is_any_json_value(session: SparkSession, checkpoint: Path, kind: str) -> None:
    positions = POSITIONS[kind]
    seen: list[tuple[int, int]] = []

    def collect(df: DataFrame, batch_id: int) -> None:
        seen.extend((batch_id, row.n) for row in df.collect())

    for _ in range(2):
        stream = read_stream(Steps(positions), session)
        writer = write_stream(stream).foreachBatch(collect)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.processAllAvailable()
        query.stop()
    assert seen == [(0, 1), (1, 2)]
    assert [logged_offsets(checkpoint, n) for n in (0, 1)] == [[positions[1]], [positions[2]]]


def test_a_limit_is_handed_to_the_source(session: SparkSession, checkpoint: Path) -> None:
    numbers = Numbers(available=10, at_most=4)
    writer = write_stream(read_stream(numbers, session)).format("memory").queryName("limited")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    assert numbers.asked_for == [(0, 4), (4, 8), (8, 10)]
    assert column(session.table("limited")) == list(range(10))
    source = query.recentProgress[2].sources[0]
    assert (source.startOffset, source.endOffset, source.latestOffset) == ("8", "10", "10")
    assert source.description == "Numbers[python]"
    assert source.numInputRows == 2


def test_a_batch_is_committed_when_the_next_is_decided_and_the_source_stopped_at_the_end(
    session: SparkSession,
) -> None:
    numbers = Numbers(available=3, at_most=1)
    query = write_stream(read_stream(numbers, session)).format("noop").start()
    query.processAllAvailable()
    assert numbers.committed == [1, 2]
    assert not numbers.is_stopped
    query.stop()
    assert numbers.is_stopped


def test_a_restart_goes_on_where_the_last_run_ended(
    session: SparkSession, checkpoint: Path
) -> None:
    seen: list[int] = []

    def collect(df: DataFrame, batch_id: int) -> None:
        seen.extend(row.n for row in df.collect())

    for available in (4, 4, 7):
        run_available(read_stream(Numbers(available), session), collect, checkpoint)
    assert seen == list(range(7))


def test_available_now_takes_several_batches_from_a_source_that_can_stand_still(
    session: SparkSession,
) -> None:
    numbers = StandingNumbers(available=5, at_most=2)

    def let_more_come(df: DataFrame, batch_id: int) -> None:
        numbers.available += df.count()

    writer = write_stream(read_stream(numbers, session)).foreachBatch(let_more_come)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert numbers.asked_for == [(0, 2), (2, 4), (4, 5)]
    assert [progress.numInputRows for progress in query.recentProgress] == [2, 2, 1]


def test_available_now_takes_one_batch_from_a_source_that_cannot(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = Numbers(available=5, at_most=2)
    writer = write_stream(read_stream(numbers, session)).format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert numbers.asked_for == [(0, 5)]
    assert "does not support Trigger.AvailableNow" in caplog.text


def test_aggregation_over_a_python_source(session: SparkSession) -> None:
    stream = read_stream(Numbers(available=10, at_most=5), session)
    counted = stream.groupBy((F.col("n") % 2).alias("odd")).count()
    writer = write_stream(counted).format("memory").queryName("python_source_counts")
    query = writer.outputMode("complete").start()
    query.processAllAvailable()
    query.stop()
    rows = {row.odd: row["count"] for row in session.table("python_source_counts").collect()}
    assert rows == {0: 5, 1: 5}


def test_a_self_join_reads_the_source_for_each_side(
    session: SparkSession, checkpoint: Path
) -> None:
    stream = read_stream(Numbers(available=4), session)
    joined = stream.alias("a").join(stream.alias("b"), F.expr("a.n = b.n + 1")).select("a.n")
    writer = write_stream(joined).format("memory").queryName("python_source_join")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    assert column(session.table("python_source_join")) == [1, 2, 3]
    assert logged_offsets(checkpoint, 0) == [4, 4]


def test_two_queries_may_read_one_source(session: SparkSession) -> None:
    stream = read_stream(Numbers(available=3), session)
    names = ["shared_one", "shared_two"]
    queries = [write_stream(stream).format("memory").queryName(name).start() for name in names]
    for query, name in zip(queries, names, strict=True):
        query.processAllAvailable()
        assert column(session.table(name)) == [0, 1, 2]


def test_data_that_comes_later_is_noticed(session: SparkSession) -> None:
    numbers = Numbers()
    query = write_stream(read_stream(numbers, session)).format("memory").queryName("later").start()
    query.processAllAvailable()
    assert session.table("later").count() == 0
    numbers.available = 2
    eventually_of(query, lambda: session.table("later").count() == 2, "two rows")


class Wrong(Numbers):
    """A source one of whose methods returns an invalid value."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(available=1)
        self.answers = answers

    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        return self.answers.get("latest_offset", 1)

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        make = self.answers.get("get_batch")
        made: DataFrame = make(spark) if make else super().get_batch(spark, start, end)
        return made


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no DataFrame": (
        {"get_batch": lambda session: [1]},
        r"get_batch of Wrong\[python\] returned \[1\], not a DataFrame",
    ),
    "a streaming DataFrame": (
        {"get_batch": lambda session: session.readStream.format("rate").load()},
        r"get_batch of Wrong\[python\] returned a streaming DataFrame",
    ),
    "a column too many": (
        {"get_batch": lambda session: session.range(1).selectExpr("id as n", "id as m")},
        r"Wrong\[python\].*struct<n:bigint,m:bigint>; .* struct<n:bigint>",
    ),
    "another type": (
        {"get_batch": lambda session: session.range(1).selectExpr("cast(id as string) as n")},
        r"Wrong\[python\].*struct<n:string>; .* struct<n:bigint>",
    ),
    "another name": (
        {"get_batch": lambda session: session.range(1)},
        r"Wrong\[python\].*struct<id:bigint>; .* struct<n:bigint>",
    ),
    "an offset that is not JSON": (
        {"latest_offset": {1, 2}},
        r"latest_offset of Wrong\[python\] returned \{1, 2\}.*JSON",
    ),
    "an offset before the beginning": (
        {"latest_offset": -1},
        r"latest_offset of Wrong\[python\] went back from 0 to -1: .* read twice",
    ),
    "an offset that is not a number of JSON's": (
        {"latest_offset": float("nan")},
        r"latest_offset of Wrong\[python\] returned nan.*JSON",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_answer_ends_the_query_with_a_message_that_says_what_was_wrong(
    session: SparkSession, checkpoint: Path, mistake: str
) -> None:
    answers, message = MISTAKES[mistake]
    writer = write_stream(read_stream(Wrong(answers), session)).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(StreamingQueryException, match=message) as caught:
        query.awaitTermination()
    assert isinstance(caught.value.__cause__, InvalidBatchError)
    assert log_entries(checkpoint, "commits") == []


def test_an_error_of_the_source_is_the_cause_with_its_own_traceback(session: SparkSession) -> None:
    class Broken(Numbers):
        def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
            raise ConnectionError("the broker is gone")

    source = Broken()
    query = write_stream(read_stream(source, session)).format("noop").start()
    with pytest.raises(StreamingQueryException, match="the broker is gone") as caught:
        query.awaitTermination()
    cause = caught.value.__cause__
    assert isinstance(cause, ConnectionError)
    traceback = cause.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    assert traceback is not None
    assert traceback.tb_frame.f_code.co_name == "latest_offset"
    assert source.is_stopped


def test_a_source_that_fails_to_stop_is_no_failure_of_the_query(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(Numbers):
        def stop(self) -> None:
            raise OSError("still in use")

    query = write_stream(read_stream(Stubborn(1), session)).format("noop").start()
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    assert "Failed to stop streaming source: Stubborn[python]" in caplog.text


def test_spark_s_own_engine_does_not_take_such_a_stream(session: SparkSession) -> None:
    query = read_stream(Numbers(1), session).writeStream.format("noop").start()
    with pytest.raises(Exception, match="path"):
        query.awaitTermination()
