"""Penstock and Spark's own engine resume from each other's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import StreamingQueryException, write_stream
from penstock.engine.faults import FaultPoint
from tests.streams import (
    LineFiles,
    column,
    log_entries,
    logged_offsets,
    query_id_of,
    write_struck,
)

Engine = Callable[[DataFrame, Path, Path], None]


def with_penstock(df: DataFrame, checkpoint: Path, out: Path) -> None:
    writer = write_stream(df).format("parquet").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()


def with_spark(df: DataFrame, checkpoint: Path, out: Path) -> None:
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()


def die_with_penstock(df: DataFrame, checkpoint: Path, out: Path) -> None:
    """Fail in batch 1 after its output is written and before it is committed."""
    writer = write_stream(df).format("parquet").option("checkpointLocation", str(checkpoint))
    struck = write_struck(writer, FaultPoint.BEFORE_COMMIT_LOG, 1).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException):
        struck.start(str(out)).awaitTermination()


def die_with_spark(df: DataFrame, checkpoint: Path, out: Path) -> None:
    """Leave the checkpoint as if Spark had crashed just before the commit of batch 1."""
    with_spark(df, checkpoint, out)
    for log in ("commits", "offsets"):
        keep = 0 if log == "commits" else 1
        for batch_id in log_entries(checkpoint, log):
            if batch_id > keep:
                (checkpoint / log / str(batch_id)).unlink()
                (checkpoint / log / f".{batch_id}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [(with_penstock, with_spark, with_penstock), (with_spark, with_penstock, with_spark)],
)
def test_each_engine_goes_on_where_the_other_stopped(
    session: SparkSession,
    tmp_path: Path,
    checkpoint: Path,
    first: Engine,
    second: Engine,
    third: Engine,
) -> None:
    files, out = LineFiles(tmp_path / "in"), tmp_path / "out"
    query_ids = set()
    for engine, names in zip((first, second, third), ("abc", "de", "f"), strict=True):
        for name in names:
            files.add(f"{name}1", f"{name}2")
        engine(files.stream(session), checkpoint, out)
        query_ids.add(query_id_of(checkpoint))
        assert column(session.read.parquet(str(out))) == files.lines
    assert len(query_ids) == 1
    assert log_entries(checkpoint, "offsets") == list(range(6))
    assert log_entries(checkpoint, "commits") == list(range(6))


@pytest.mark.parametrize(
    ("dying", "taking_over"), [(die_with_penstock, with_spark), (die_with_spark, with_penstock)]
)
def test_a_batch_that_one_engine_did_not_commit_is_finished_by_the_other(
    session: SparkSession, tmp_path: Path, checkpoint: Path, dying: Engine, taking_over: Engine
) -> None:
    files, out = LineFiles(tmp_path / "in"), tmp_path / "out"
    files.add("a")
    files.add("b")
    dying(files.stream(session), checkpoint, out)
    assert log_entries(checkpoint, "offsets") == [0, 1]
    assert log_entries(checkpoint, "commits") == [0]
    decided = logged_offsets(checkpoint, 1)
    query_id = query_id_of(checkpoint)
    files.add("c")
    taking_over(files.stream(session, at_most=10), checkpoint, out)
    assert logged_offsets(checkpoint, 1) == decided
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
    assert query_id_of(checkpoint) == query_id
    assert column(session.read.parquet(str(out))) == ["a", "b", "c"]


def test_state_is_carried_over_in_both_directions(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    counts = files.stream(session).groupBy("value").count()
    files.add("a", "b")
    seen: dict[str, int] = {}

    def collect(df: DataFrame, batch_id: int) -> None:
        seen.update({row.value: row["count"] for row in df.collect()})

    def run_with_penstock() -> None:
        writer = write_stream(counts).foreachBatch(collect).outputMode("update")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    def run_with_spark() -> None:
        writer = counts.writeStream.foreachBatch(collect).outputMode("update")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run_with_penstock()
    files.add("a")
    run_with_spark()
    assert seen == {"a": 2, "b": 1}
    files.add("a", "b")
    run_with_penstock()
    assert seen == {"a": 3, "b": 2}


@pytest.mark.parametrize("name", ["a b", "a%20b", "größe", "a#b", "a+b&c", "a=b"])
def test_both_engines_find_a_checkpoint_with_an_odd_name(
    session: SparkSession, tmp_path: Path, name: str
) -> None:
    files, out, checkpoint = LineFiles(tmp_path / "in"), tmp_path / "out", tmp_path / name
    files.add("a")
    with_penstock(files.stream(session), checkpoint, out)
    files.add("b")
    with_spark(files.stream(session), checkpoint, out)
    files.add("c")
    with_penstock(files.stream(session), checkpoint, out)
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
    assert column(session.read.parquet(str(out))) == ["a", "b", "c"]
