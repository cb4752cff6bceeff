"""Queries with many sinks on Spark that are started again: their state, and their sinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import DataStreamWriter, StreamingQueryException, read_stream, write_stream
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.surgery import rewind
from penstock.checkpoint.tools.view import CheckpointView
from tests.spark.kept_batches import Batches, entries, fail, keep, run
from tests.streams import Numbers, StandingNumbers, log_entries

# State.


@pytest.mark.core
def test_the_state_of_a_batch_that_all_sinks_have_is_committed_with_it(
    session: SparkSession, checkpoint: Path
) -> None:
    counts: dict[int, dict[int, int]] = {}

    def write(df: DataFrame, batch_id: int) -> None:
        assert batch_id not in counts
        counts[batch_id] = {row.odd: row["count"] for row in df.collect()}

    def query(available: int) -> DataStreamWriter:
        rows = read_stream(StandingNumbers(available, at_most=2), session)
        odd = rows.groupBy((F.col("n") % 2).alias("odd")).count()
        return write_stream(odd).outputMode("update").to("counts", write)

    run(query(4), checkpoint)
    # A crash between the last entry and the commit, after which the state is older too.
    (checkpoint / "commits" / "1").unlink()
    for delta in (checkpoint / "state").rglob("2.delta"):
        delta.unlink()
    run(query(6), checkpoint)
    assert counts == {0: {0: 1, 1: 1}, 1: {0: 2, 1: 2}, 2: {0: 3, 1: 3}}


def test_a_batch_without_state_that_all_sinks_have_is_only_committed(
    session: SparkSession, checkpoint: Path
) -> None:
    computed = session.sparkContext.accumulator(0)
    counted = F.udf(lambda n: [n, computed.__iadd__(1)][0], "long")

    def query() -> DataStreamWriter:
        rows = read_stream(Numbers(3), session).select(counted("n").alias("n"))
        return write_stream(rows).to("lake", keep({}))

    run(query(), checkpoint)
    (checkpoint / "commits" / "0").unlink()
    run(query(), checkpoint)
    assert computed.value == 3
    assert log_entries(checkpoint, "commits") == [0]


def test_complete_mode_and_a_batch_without_data(session: SparkSession, checkpoint: Path) -> None:
    totals: list[list[tuple[int, int]]] = []

    def write(df: DataFrame, batch_id: int) -> None:
        totals.append(sorted((row.odd, row["count"]) for row in df.collect()))

    rows = read_stream(StandingNumbers(4, at_most=2), session)
    odd = rows.groupBy((F.col("n") % 2).alias("odd")).count()
    run(write_stream(odd).outputMode("complete").to("all", write), checkpoint)
    assert totals == [[(0, 1), (1, 1)], [(0, 2), (1, 2)]]

    empty: list[int] = []
    times = read_stream(StandingNumbers(2), session).select(F.timestamp_seconds("n").alias("at"))
    windows = times.withWatermark("at", "0 seconds").groupBy(F.window("at", "1 second")).count()
    query = write_stream(windows).to("windows", lambda df, batch_id: empty.append(df.count()))
    run(query, checkpoint.with_name("second"))
    assert empty == [0, 1]


# The sinks of a restart.


def test_a_sink_that_is_added_starts_with_the_next_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    lake: Batches = {}
    new: Batches = {}
    run(write_stream(read_stream(Numbers(1), session)).to("lake", keep(lake)), checkpoint)
    rows = read_stream(Numbers(2), session)
    run(write_stream(rows).to("lake", keep(lake)).to("new", keep(new)), checkpoint)
    assert lake == {0: [0], 1: [1]}
    assert new == {1: [1]}


def test_after_a_rewind_the_sinks_get_the_batches_again(
    session: SparkSession, checkpoint: Path
) -> None:
    def batches() -> tuple[Batches, Batches]:
        lake: Batches = {}
        alerts: Batches = {}
        rows = read_stream(StandingNumbers(6, at_most=2), session)
        run(write_stream(rows).to("lake", keep(lake)).to("alerts", keep(alerts)), checkpoint)
        return lake, alerts

    every = {0: [0, 1], 1: [2, 3], 2: [4, 5]}
    assert batches() == (every, every)
    assert batches() == ({}, {})
    backup.apply(checkpoint, rewind(CheckpointView(checkpoint), 0))
    later = {1: [2, 3], 2: [4, 5]}
    assert batches() == (later, later)


def test_a_query_with_one_sink_continues_with_many(session: SparkSession, checkpoint: Path) -> None:
    broken = write_stream(read_stream(Numbers(1), session)).foreachBatch(fail)
    with pytest.raises(StreamingQueryException, match="boom"):
        run(broken, checkpoint)
    lake: Batches = {}
    run(write_stream(read_stream(Numbers(1), session)).to("lake", keep(lake)), checkpoint)
    assert lake == {0: [0]}


def test_a_batch_boundary_can_be_handed_over_to_spark_and_back(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def lines() -> DataFrame:
        return session.readStream.schema("n long").json(str(source))

    seen: Batches = {}
    for batch_id in range(3):
        (source / f"{batch_id}.json").write_text(json.dumps({"n": batch_id}))
        if batch_id == 1:
            writer = lines().writeStream.foreachBatch(keep(seen))
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            writer.start().awaitTermination()
        else:
            run(write_stream(lines()).to("lake", keep(seen)), checkpoint)
    assert seen == {0: [0], 1: [1], 2: [2]}
    assert entries(checkpoint, "lake") == [0, 2]
