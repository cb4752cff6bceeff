"""The tools for checkpoints, batches and lag, on the offsets of a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

import penstock
from penstock import write_stream
from penstock.checkpoint.timestamps import format_timestamp
from penstock.cli.main import app
from penstock.debug.bisection import Bisection
from penstock.spark.sinks.sink_factory import SinkRequest
from tests.real.both import read_kafka
from tests.real.groups import committed
from tests.real.topics import Record, Topics, new_name

MINUTE = 60_000
BASE = int(time.time() / 60) * MINUTE - 120 * MINUTE
"""Two hours ago: the broker deletes records that are older than seven days."""


def timed(*minutes: int, partition: int = 0) -> list[Record]:
    """Records with timestamps some minutes after `BASE`, which are also their values."""
    return [Record(str(m), partition=partition, timestamp_ms=BASE + m * MINUTE) for m in minutes]


def run_to_the_end(df: DataFrame, checkpoint: Path) -> list[str]:
    """Process all that is there; returns the values of the records in the order of the batches."""
    rows: list[str] = []

    def add(batch: DataFrame, _: int) -> None:
        rows.extend(sorted(row["value"] for row in batch.collect()))

    writer = write_stream(df).foreachBatch(add).trigger(availableNow=True)
    writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
    return rows


def cli(*words: object, code: int = 0) -> Any:
    """Run `penstock checkpoint ... --json`."""
    result = CliRunner().invoke(app, ["checkpoint", *map(str, words), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def set_offset(checkpoint: Path, topics: Topics, moment: object) -> list[object]:
    """The words of a command that sets the offsets to those of a time."""
    words = ["set-offset", checkpoint, 0, "--kafka-timestamp", moment, "--stopped"]
    return [*words, "--bootstrap-servers", topics.bootstrap_servers]


def positions(checkpoint: Path) -> dict[tuple[str, int], int]:
    (source,) = cli("show", checkpoint)["sources"]
    found = source["position"]["partitions"]
    return {(one["topic"], one["partition"]): one["offset"] for one in found}


def test_set_offset_to_a_time_reads_from_the_first_record_at_or_after_it(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, [*timed(0, 10, 20, 30), *timed(1, 11, 21, partition=1)])
    df = read_kafka(spark, topics, {"subscribe": topic})
    assert len(run_to_the_end(df, tmp_path)) == 7
    words = set_offset(tmp_path, topics, format_timestamp(BASE + 20 * MINUTE))
    planned = cli(*words)
    assert not planned["isDone"]
    assert positions(tmp_path) == {(topic, 0): 4, (topic, 1): 3}
    cli(*words, "--yes")
    assert positions(tmp_path) == {(topic, 0): 2, (topic, 1): 2}
    assert run_to_the_end(df, tmp_path) == ["20", "21", "30"]


def test_set_offset_to_a_time_after_the_last_record_is_the_latest_offset(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, [*timed(0, 10), *timed(30, partition=1)])
    df = read_kafka(spark, topics, {"subscribe": topic})
    run_to_the_end(df, tmp_path)
    topics.write(topic, timed(12))  # not processed yet, and skipped below
    done = cli(*set_offset(tmp_path, topics, BASE + 25 * MINUTE), "--yes")
    assert done["warnings"][0].startswith("1 of 2 partitions have no record")
    assert f"{topic}-0 at 3" in done["warnings"][0]
    assert positions(tmp_path) == {(topic, 0): 3, (topic, 1): 0}
    assert run_to_the_end(df, tmp_path) == ["30"]
    cli("undo", tmp_path, "--yes", "--stopped", code=1)  # a batch has run since


def test_set_offset_to_a_time_can_be_undone(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, timed(0, 10, 20))
    run_to_the_end(read_kafka(spark, topics, {"subscribe": topic}), tmp_path)
    before = (tmp_path / "offsets/0").read_text()
    cli(*set_offset(tmp_path, topics, 0), "--yes")
    assert positions(tmp_path)[topic, 0] == 0
    cli("undo", tmp_path, "--yes", "--stopped")
    assert (tmp_path / "offsets/0").read_text() == before


def test_a_partition_that_the_broker_does_not_have_is_named(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, timed(0))
    run_to_the_end(read_kafka(spark, topics, {"subscribe": topic}), tmp_path)
    entry = tmp_path / "offsets/0"
    entry.write_text(entry.read_text().replace('"1":', '"7":5,"1":'))
    words = set_offset(tmp_path, topics, BASE)
    refused = cli(*words, "--kafka-option", "sasl.password=hunter2-hunter2", code=1)
    assert f"did not return the offset of {topic}-7" in refused["error"]
    assert "hunter2" not in refused["error"]


def test_rewind_to_a_time_processes_the_later_batches_again(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    df = read_kafka(spark, topics, {"subscribe": topic})
    for minute in (1, 2, 3):
        topics.write(topic, timed(minute))
        assert run_to_the_end(df, tmp_path) == [str(minute)]
    second = cli("show", tmp_path)["batches"][1]["plannedAtMs"]
    done = cli("rewind", tmp_path, "--to-time", format_timestamp(second), "--stopped", "--yes")
    assert done["operation"] == "rewind --to 0"
    assert run_to_the_end(df, tmp_path) == ["2", "3"]


def test_show_and_diff_count_the_records_of_each_partition(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    df = read_kafka(spark, topics, {"subscribe": topic})
    topics.write(topic, timed(0, 1, 2))
    run_to_the_end(df, tmp_path / "a")
    cli("fork", tmp_path / "a", tmp_path / "b")
    topics.add_partitions(topic, 3)
    topics.write(topic, [*timed(3), *timed(4, 5, partition=2)])
    run_to_the_end(df, tmp_path / "a")
    detail = cli("show", tmp_path / "a", 1)
    assert detail["positions"]["0"]["partitions"] == [
        {"topic": topic, "partition": 0, "start": 3, "end": 4, "count": 1},
        {"topic": topic, "partition": 1, "start": 0, "end": 0, "count": 0},
        {"topic": topic, "partition": 2, "start": None, "end": 2, "count": None},
    ]
    assert detail["batch"]["moved"] == {"0": "+3, 1 partition added"}
    differences = cli("diff", tmp_path / "a", tmp_path / "b", code=1)["differences"]
    assert [d["subject"] for d in differences] == ["query id", "next batch", "batch 1"]


def failing_on(df: DataFrame, bad: str) -> DataFrame:
    failing = F.when(F.col("value") == bad, F.raise_error(F.lit("bad record")))
    return df.withColumn("value", failing.otherwise(F.col("value")))


def test_bisect_finds_the_record_that_fails(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.write(topic, [*timed(*range(20)), *timed(*range(100, 120), partition=1)])
    df = failing_on(read_kafka(spark, topics, {"subscribe": topic}), "113")
    checkpoint = tmp_path / "checkpoint"
    writer = write_stream(df).format("noop").trigger(availableNow=True)
    with pytest.raises(penstock.StreamingQueryException, match="bad record"):
        writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
    topics.write(topic, timed(99))  # newer than the batch
    group = new_name("group")
    sink = SinkRequest("noop", "append", {"kafkaConsumerGroup": group})
    report = Bisection(checkpoint, tmp_path / "work").run(df, sink)
    (found,) = report.smallest
    assert (found.size, found.unit) == (1, "record")
    start, end = json.loads(found.start or "{}")[topic], json.loads(found.end or "{}")[topic]
    assert (start["1"], end["1"]) == (13, 14)
    assert start["0"] == end["0"]
    assert "bad record" in (report.error or "")
    assert committed(topics, group) == {}  # the trials report nothing


def test_replay_returns_the_records_of_a_batch(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    df = read_kafka(spark, topics, {"subscribe": topic})
    topics.write(topic, timed(1, 2, 3))
    run_to_the_end(df, tmp_path)
    topics.write(topic, [*timed(4), *timed(5, partition=1)])
    run_to_the_end(df, tmp_path)
    topics.write(topic, timed(6))
    replay = penstock.replay(df.filter("value != '5'"), str(tmp_path), 1)
    read = replay.input.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
    assert sorted(map(tuple, read.collect())) == [("4", 0, 3), ("5", 1, 0)]
    assert [row["value"] for row in replay.output.collect()] == ["4"]


def test_the_lag_in_records_and_in_time(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    name = new_name("lagging")
    df = read_kafka(spark, topics, {"subscribe": topic, "maxOffsetsPerTrigger": "4"})
    writer = write_stream(df).format("noop").queryName(name).stepped()
    query = writer.start(checkpointLocation=str(tmp_path))
    try:
        topics.write(topic, [*timed(1, 2), *timed(3, 4, partition=1)])
        query.step()
        caught_up = source_of(name)
        assert (caught_up.lag, caught_up.lag_seconds, caught_up.catch_up_seconds) == (0, 0, 0)
        topics.write(topic, [*timed(*range(5)), *timed(*range(5), partition=1)])
        query.step()
        behind = source_of(name)
        progress = query.lastProgress
        assert progress is not None
        assert behind.lag == 6
        assert float(progress.sources[0].metrics["avgOffsetsBehindLatest"]) == 3
        rate = progress.sources[0].processedRowsPerSecond
        assert behind.catch_up_seconds == pytest.approx(6 / rate, rel=0.1)
        assert behind.lag_seconds is not None
        assert behind.lag_seconds > 0
        query.step()
        query.step()
        assert (source_of(name).lag, source_of(name).lag_seconds) == (0, 0)
    finally:
        query.stop()


def source_of(name: str) -> Any:
    (found,) = [query for query in penstock.snapshots() if query.name == name]
    return found.sources[0]
