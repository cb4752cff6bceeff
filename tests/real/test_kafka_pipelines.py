"""Pipelines on Kafka have the same results on both engines, and on both in turn."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.pipelines import Rows
from tests.differential.compare import differences
from tests.differential.program import Program
from tests.differential.round_trips import make_the_trip
from tests.differential.runs import Engine, Run, run_in_lock_step
from tests.differential.sinks import FileSink, Sink
from tests.real.feed import Feed
from tests.real.pipelines import JOINED, PARQUET, PIPELINES, ROW, WINDOWS, Input, Pipeline
from tests.real.postgres import PostgresServer
from tests.real.sinks import KafkaSink, PostgresSink
from tests.real.topics import Topics, new_name

BLOCKS_PER_ROUND = 2
ROUNDS = 3
AT_MOST = 50


@pytest.fixture
def feed(topics: Topics) -> Feed:
    return Feed(topics, new_name("feed"))


@pytest.fixture
def sinks(topics: Topics, postgres: PostgresServer) -> dict[str, Sink]:
    """The sink of each pipeline."""
    pair = "id long, left_at long, right_at long"
    return {
        PARQUET.name: FileSink("parquet", ROW),
        WINDOWS.name: KafkaSink(topics),
        JOINED.name: FileSink("parquet", pair),
        "postgres": PostgresSink(postgres),
    }


def program_of(pipeline: Pipeline, feed: Feed, sink: Sink) -> Program:
    """The pipeline as a program of the differential suite."""
    input = Input.of(feed, AT_MOST)
    return Program(
        name=new_name(pipeline.name),
        build=lambda given: pipeline.query(given.spark, input),
        inputs={},
        rounds=ROUNDS,
        # Rows are read batch by batch through the log of the file sink, before it is compacted.
        conf={"spark.sql.streaming.fileSink.log.compactInterval": "100"},
        sink=sink,
        stateful=pipeline in (WINDOWS, JOINED),
    )


def arrive(feed: Feed, number: int, rounds: int) -> None:
    feed.send(BLOCKS_PER_ROUND)
    if number == rounds - 1:
        feed.close()


def found(run: Run) -> Rows:
    """The rows in the sink, as tuples of numbers."""
    rows = [row for batch in run.rows().values() for row in batch]
    values = (json.loads(row["value"]) if "value" in row else row for row in rows)
    return Counter(tuple(value.values()) for value in values)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_a_pipeline_has_the_same_results_on_both_engines(
    pipeline: Pipeline, feed: Feed, sinks: dict[str, Sink], spark: SparkSession, tmp_path: Path
) -> None:
    sink = sinks[pipeline.name]
    program = program_of(pipeline, feed, sink)
    runs = run_in_lock_step(program, spark, tmp_path, lambda n, of: arrive(feed, n, of))
    spark_run, penstock_run = runs[Engine.SPARK], runs[Engine.PENSTOCK]
    difference = differences("Spark", spark_run.observe(), "Penstock", penstock_run.observe())
    if difference:
        pytest.fail(f"{program.name}\n{difference}", pytrace=False)
    assert found(penstock_run) == pipeline.expected(feed)
    assert len(penstock_run.log("commits")) > ROUNDS
    if isinstance(sink, KafkaSink):
        assert sink.count(penstock_run.outlet) == sink.count(spark_run.outlet)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_a_pipeline_may_change_engines_at_any_batch(
    pipeline: Pipeline, feed: Feed, sinks: dict[str, Sink], spark: SparkSession, tmp_path: Path
) -> None:
    program = program_of(pipeline, feed, sinks[pipeline.name])
    different = make_the_trip(program, spark, tmp_path, lambda n, of: arrive(feed, n, of))
    if any(different):
        pytest.fail("\n".join([program.name, *different]), pytrace=False)
    reference = Run(program, spark, tmp_path / "input", tmp_path / "reference")
    assert found(reference) == pipeline.expected(feed)
