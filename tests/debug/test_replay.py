"""Replay of a recorded batch as ordinary DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import read_stream, write_stream
from penstock.errors import MissingBatchError, UnsupportedError
from tests.streams import LineFiles, Numbers, column, run_available


def run(frame: DataFrame, checkpoint: Path) -> dict[int, list[tuple[object, ...]]]:
    """Run until all data is processed; returns the rows that each batch passed to its sink."""
    batches: dict[int, list[tuple[object, ...]]] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted(tuple(row) for row in batch.collect())

    run_available(frame, keep, checkpoint)
    return batches


def files_on_disk(checkpoint: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(checkpoint)): path.read_bytes()
        for path in checkpoint.rglob("*")
        if path.is_file()
    }


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    assert not frame.isStreaming
    return sorted(tuple(row) for row in frame.collect())


def test_a_batch_of_files(session: SparkSession, tmp_path: Path, checkpoint: Path) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a", "b")
    files.add("c")
    files.add("d", "e")
    lines = files.stream(session)
    query = lines.where("value != 'd'").select(
        F.upper("value").alias("line"), F.current_timestamp().alias("at")
    )
    ran = run(query, checkpoint)
    before = files_on_disk(checkpoint)
    for batch_id, contents in enumerate((["a", "b"], ["c"], ["d", "e"])):
        with penstock.replay(query, checkpoint, batch_id) as replay:
            assert column(replay.input) == contents
            assert rows(replay.output) == ran[batch_id]
            assert replay.batch_id == batch_id
            taken = replay.output.groupBy().count()
        assert rows(taken) == [(len(ran[batch_id]),)]
    assert files_on_disk(checkpoint) == before


def test_the_default_is_the_last_planned_batch(session: SparkSession, checkpoint: Path) -> None:
    def fail_at_one(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            raise ValueError("bad row")

    numbers = read_stream(Numbers(7, at_most=4), session)
    query = numbers.selectExpr("n * 10 as ten")
    writer = write_stream(query).foreachBatch(fail_at_one)
    with pytest.raises(penstock.StreamingQueryException):
        writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
    replay = penstock.replay(query, checkpoint)
    assert replay.batch_id == 1
    assert replay.offsets == {"Numbers[python]": ("4", "7")}
    assert column(replay.input) == [4, 5, 6]
    assert column(replay.output) == [40, 50, 60]
    assert replay.timestamp_ms > 0
    assert "batch_id=1" in repr(replay)


def test_a_v2_stream(session: SparkSession, checkpoint: Path) -> None:
    rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = rate.select("value")
    writer = write_stream(query).format("noop").trigger(processingTime="0 seconds")
    running = writer.start(checkpointLocation=str(checkpoint))
    running.stop_after(batches=3)
    running.awaitTermination()
    replay = penstock.replay(query, checkpoint, 1)
    assert column(replay.input, "value") == [5, 6, 7, 8, 9]
    assert column(replay.output) == [5, 6, 7, 8, 9]


def test_several_sources_of_which_one_has_nothing_new(
    session: SparkSession, checkpoint: Path
) -> None:
    first, second = Numbers(2), Numbers(3)
    frames = [read_stream(source, session) for source in (first, second)]
    query = frames[0].union(frames[1])
    running = write_stream(query).format("noop").stepped().start(checkpointLocation=str(checkpoint))
    running.step()
    second.available = 5
    running.step()
    replay = penstock.replay(query, checkpoint, 1)
    assert [column(frame) for frame in replay.inputs] == [[], [3, 4]]
    assert column(replay.output) == [3, 4]
    with pytest.raises(ValueError, match="2 sources"):
        _ = replay.input


def test_a_stateful_query_has_an_input_and_no_output(
    session: SparkSession, checkpoint: Path
) -> None:
    query = read_stream(Numbers(4), session).groupBy((F.col("n") % 2).alias("odd")).count()
    writer = write_stream(query).format("noop").outputMode("update").trigger(once=True)
    writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
    before = files_on_disk(checkpoint)
    replay = penstock.replay(query, checkpoint, 0)
    assert replay.is_stateful
    assert column(replay.input) == [0, 1, 2, 3]
    with pytest.raises(UnsupportedError, match="fork the checkpoint"):
        _ = replay.output
    assert files_on_disk(checkpoint) == before


def test_a_missing_batch(session: SparkSession, checkpoint: Path) -> None:
    query = read_stream(Numbers(4), session)
    for directory in (checkpoint, checkpoint.parent):
        with pytest.raises(MissingBatchError, match=r"is not a checkpoint.*checkpointLocation"):
            penstock.replay(query, directory)
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')
    with pytest.raises(MissingBatchError, match="has no batch yet"):
        penstock.replay(query, checkpoint, 0)
    writer = write_stream(query).format("noop").trigger(once=True)
    writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
    with pytest.raises(MissingBatchError, match=r"batch 7 is not planned.*has batches 0 to 0"):
        penstock.replay(query, checkpoint, 7)
