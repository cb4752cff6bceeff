"""Queries that are refused at the start, or by the first batch because of their definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F

from tests.differential.failures.stage import Failure, Stage


def _start(change: Callable[[Stage, Any], Any]) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        stage.put("a")
        change(stage, stage.engine.writer(stage.lines())).start()

    return provoke


def _name_taken(stage: Stage) -> None:
    stage.put("a")

    def start(checkpoint: str) -> Any:
        writer = stage.engine.writer(stage.lines()).format("noop").queryName("taken")
        return writer.option("checkpointLocation", str(stage.home / checkpoint)).start()

    query = start("a")
    try:
        start("b")
    finally:
        query.stop()


def _counts_appended(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.counts())


def _counts_completed(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.counts(), "parquet", "complete")


def _two_columns_as_text(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.lines().withColumn("n", F.lit(1)), "text")


def _join_without_equality(stage: Stage) -> None:
    stage.put("a")
    left, right = stage.lines().alias("l"), stage.lines().alias("r")
    stage.run(left.join(right, F.expr("l.value < r.value")))


def _into_a_view(stage: Stage) -> None:
    stage.put("a")
    stage.session.range(1).createOrReplaceTempView("a_view")
    stage.writer(stage.lines()).toTable("a_view")


def _unknown_sink(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.lines(), "no-such-format")


def _batch_sink(stage: Stage) -> None:
    stage.put("a")
    stage.run(stage.lines(), "jdbc")


FAILURES = (
    Failure("a name that is taken", _name_taken),
    Failure("no checkpoint location", _start(lambda stage, writer: writer.format("parquet"))),
    Failure("memory without a name", _start(lambda stage, writer: writer.format("memory"))),
    Failure("aggregation appended, no watermark", _counts_appended),
    Failure("an output mode the sink lacks", _counts_completed),
    Failure("columns the sink cannot write", _two_columns_as_text),
    Failure("stream-stream join, no equality", _join_without_equality),
    Failure("a table that is a view", _into_a_view),
    Failure("an unknown sink", _unknown_sink),
    Failure("a sink for batches only", _batch_sink),
)
