"""After each command, Spark and Penstock resume as documented: tested on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.engine.faults import FaultPoint
from tests.checkpoint.tools.checkpoints import age
from tests.streams import LineFiles, log_entries, query_id_of, write_struck

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

Engine = Literal["spark", "penstock"]
Batches = dict[int, list[tuple[Any, ...]]]
both_engines = pytest.mark.parametrize(
    "engine", [pytest.param("spark", marks=pytest.mark.extended), "penstock"]
)
"""The engine that goes on after the operation: in `make test` Penstock, in `make test-all` both."""


def writer_of(engine: Engine, df: DataFrame) -> Any:
    return penstock.write_stream(df) if engine == "penstock" else df.writeStream


def run(engine: Engine, df: DataFrame, checkpoint: Path, mode: str = "append") -> Batches:
    """Run a query over all available data; returns the rows of each batch at the sink."""
    given: Batches = {}

    def take(batch: DataFrame, batch_id: int) -> None:
        given[batch_id] = sorted(tuple(row) for row in batch.collect())

    writer = writer_of(engine, df).foreachBatch(take).outputMode(mode)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return given


def consume(batch: DataFrame, batch_id: int) -> None:
    batch.collect()


def crash(df: DataFrame, checkpoint: Path, point: FaultPoint, batch: int, mode: str) -> None:
    """Run a query that crashes at a point of a batch."""
    writer = penstock.write_stream(df).outputMode(mode).trigger(availableNow=True)
    writer.foreachBatch(consume).option("checkpointLocation", str(checkpoint))
    with pytest.raises(penstock.StreamingQueryException):
        write_struck(writer, point, batch).start().awaitTermination()


def operate(checkpoint: Path, plan: Callable[[CheckpointView], Plan]) -> None:
    """Apply a plan and verify the checkpoint."""
    backup.apply(checkpoint, plan(CheckpointView(checkpoint)))
    verification = verify(CheckpointView(checkpoint))
    assert verification.will_restart, verification.findings


def letters(tmp_path: Path, *files: str) -> LineFiles:
    lines = LineFiles(tmp_path / "input")
    for file in files:
        lines.add(*file)
    return lines


def counts(session: SparkSession, lines: LineFiles) -> DataFrame:
    return lines.stream(session).groupBy("value").count()


@both_engines
def test_rewind_of_a_query_without_state(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b", "c", "d")
    run(engine, lines.stream(session), checkpoint)
    operate(checkpoint, lambda view: surgery.rewind(view, 1))
    assert run(engine, lines.stream(session), checkpoint) == {2: [("c",)], 3: [("d",)]}
    assert log_entries(checkpoint, "commits") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "engine"),
    [
        pytest.param({}, "spark", id="hdfs-spark"),
        pytest.param({}, "penstock", id="hdfs-penstock"),
        pytest.param({PROVIDER: ROCKSDB}, "spark", id="rocksdb-spark"),
        pytest.param({PROVIDER: ROCKSDB}, "penstock", id="rocksdb-penstock"),
        pytest.param({PROVIDER: ROCKSDB, FORMAT: "2"}, "spark", id="format-2-spark"),
        pytest.param({PROVIDER: ROCKSDB, FORMAT: "2"}, "penstock", id="format-2-penstock"),
    ],
)
def test_rewind_of_a_query_with_state(
    session: SparkSession,
    tmp_path: Path,
    checkpoint: Path,
    engine: Engine,
    settings: Mapping[str, str],
) -> None:
    for key, value in settings.items():
        session.conf.set(key, value)
    lines = letters(tmp_path, "a", "ab", "a", "b")
    first = run("spark", counts(session, lines), checkpoint, "complete")
    operate(checkpoint, lambda view: surgery.rewind(view, 1))
    again = run(engine, counts(session, lines), checkpoint, "complete")
    assert again == {batch: rows for batch, rows in first.items() if batch > 1}
    assert again[3] == [("a", 3), ("b", 2)]


@both_engines
def test_replan_applies_a_new_limit(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b", "c", "d")
    crash(lines.stream(session), checkpoint, FaultPoint.AFTER_OFFSET_LOG, 2, "append")
    operate(checkpoint, surgery.replan)
    resumed = run(engine, lines.stream(session, at_most=2), checkpoint)
    assert resumed == {2: [("c",), ("d",)]}


@both_engines
def test_replan_after_the_batch_has_written_its_state(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "ab", "a")
    crash(counts(session, lines), checkpoint, FaultPoint.AFTER_SINK, 1, "complete")
    assert (checkpoint / "state/0/0/2.delta").exists()
    operate(checkpoint, surgery.replan)
    assert not (checkpoint / "state/0/0/2.delta").exists()
    assert run(engine, counts(session, lines), checkpoint, "complete") == {
        1: [("a", 2), ("b", 1)],
        2: [("a", 3), ("b", 1)],
    }


@both_engines
def test_replan_of_the_very_first_batch(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b")
    crash(counts(session, lines), checkpoint, FaultPoint.AFTER_SINK, 0, "complete")
    operate(checkpoint, surgery.replan)
    identity = query_id_of(checkpoint)
    resumed = run(engine, counts(session, lines), checkpoint, "complete")
    assert resumed[1] == [("a", 1), ("b", 1)]
    assert query_id_of(checkpoint) == identity


@both_engines
def test_skip_passes_over_a_batch(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b", "c")
    crash(lines.stream(session), checkpoint, FaultPoint.BEFORE_SINK, 1, "append")
    operate(checkpoint, surgery.skip)
    assert run(engine, lines.stream(session), checkpoint) == {2: [("c",)]}


@both_engines
def test_skip_of_a_batch_whose_state_is_written(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "ab", "a")
    crash(counts(session, lines), checkpoint, FaultPoint.AFTER_SINK, 1, "complete")
    operate(checkpoint, surgery.skip)
    resumed = run(engine, counts(session, lines), checkpoint, "complete")
    assert resumed == {2: [("a", 3), ("b", 1)]}


@both_engines
def test_set_offset_goes_back_and_heeds_the_limit(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b", "c")
    run("spark", lines.stream(session), checkpoint)
    operate(checkpoint, lambda view: source_surgery.set_offset(view, "0", '{"logOffset":0}'))
    assert run(engine, lines.stream(session), checkpoint) == {3: [("b",)], 4: [("c",)]}


@both_engines
def test_set_offset_to_the_beginning(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "b")
    run("spark", lines.stream(session, at_most=2), checkpoint)
    operate(checkpoint, lambda view: source_surgery.set_offset(view, "0", "-"))
    assert run(engine, lines.stream(session, at_most=2), checkpoint) == {1: [("a",), ("b",)]}


@both_engines
def test_sources_are_added_removed_and_reordered(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    left, right = LineFiles(tmp_path / "left"), LineFiles(tmp_path / "right")
    left.add("a")
    run("spark", left.stream(session), checkpoint)
    right.add("x")
    left.add("b")

    operate(checkpoint, lambda view: source_surgery.add_source(view, "0"))
    union = right.stream(session).union(left.stream(session))
    assert run(engine, union, checkpoint) == {1: [("b",), ("x",)]}

    left.add("c")
    operate(checkpoint, lambda view: source_surgery.reorder_sources(view, [1, 0]))
    union = left.stream(session).union(right.stream(session))
    assert run(engine, union, checkpoint) == {2: [("c",)]}

    right.add("y")
    operate(checkpoint, lambda view: source_surgery.remove_source(view, "0"))
    assert run(engine, right.stream(session), checkpoint) == {3: [("y",)]}


@both_engines
def test_a_fork_and_its_original_are_independent(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "ab")
    run("spark", counts(session, lines), checkpoint, "complete")
    age(checkpoint)
    copy = tmp_path / "fork"
    made = fork(CheckpointView(checkpoint), copy, at=0)
    assert verify(CheckpointView(copy)).will_restart
    assert query_id_of(copy) == made.query_id != query_id_of(checkpoint)
    assert run(engine, counts(session, lines), copy, "complete") == {1: [("a", 2), ("b", 1)]}
    lines.add("b")
    assert run(engine, counts(session, lines), checkpoint, "complete") == {2: [("a", 2), ("b", 2)]}


@both_engines
def test_undo_leaves_no_trace(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine
) -> None:
    lines = letters(tmp_path, "a", "ab", "b")
    run("spark", counts(session, lines), checkpoint, "complete")
    operate(checkpoint, lambda view: surgery.rewind(view, 0))
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    lines.add("a")
    resumed = run(engine, counts(session, lines), checkpoint, "complete")
    assert resumed == {3: [("a", 3), ("b", 2)]}


@both_engines
@pytest.mark.parametrize("cut_sink", [False, True], ids=["sink-left-alone", "sink-cut-back"])
def test_a_file_sink_skips_batches_it_remembers(
    session: SparkSession, tmp_path: Path, checkpoint: Path, engine: Engine, cut_sink: bool
) -> None:
    """The data loss that rewind warns of, which Penstock prevents, and its remedy."""
    lines, output = letters(tmp_path, "a", "b", "c"), tmp_path / "output"

    def write_all(at_most: int) -> None:
        writer = writer_of(engine, lines.stream(session, at_most)).format("parquet")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start(str(output)).awaitTermination()

    write_all(at_most=1)
    sink = output if cut_sink else None
    warnings = surgery.rewind(CheckpointView(checkpoint), 0, sink).warnings
    assert any("DATA LOSS" in warning for warning in warnings) != cut_sink
    operate(checkpoint, lambda view: surgery.rewind(view, 0, sink))
    lines.add("d")
    if engine == "penstock" and not cut_sink:
        with pytest.raises(penstock.StreamingQueryException, match="has batches 1 to 2 in its"):
            write_all(at_most=3)
    else:
        write_all(at_most=3)
    read = sorted(row.value for row in session.read.parquet(str(output)).collect())
    assert read == (["a", "b", "c", "d"] if cut_sink else ["a", "b", "c"])
    assert os.path.isdir(output / "_spark_metadata")
