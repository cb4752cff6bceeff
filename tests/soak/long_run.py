"""Runs a query for a long time and measures it at intervals, between two batches."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from tests.soak.vitals import Vitals, take

SPARKS_MEMORY_OF_THE_PAST = {
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
}
"""What Spark itself remembers of finished work grows to these sizes, by default to a thousand
executions and a hundred thousand tasks. Small ones let a leak be seen for what it is."""


def run(
    spark: SparkSession,
    checkpoint: Path,
    batches: int,
    every: int,
    tell: Callable[[int, Vitals], None] = lambda batch_id, vitals: None,
) -> dict[int, Vitals]:
    """Run one query for a number of small batches; returns its vitals at an interval, by batch."""
    measured: dict[int, Vitals] = {}

    def measure(batch: penstock.BatchInfo) -> None:
        if batch.batch_id and batch.batch_id % every == 0:
            gc.collect()
            measured[batch.batch_id] = take(spark)
            tell(batch.batch_id, measured[batch.batch_id])

    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1)
    writer = penstock.write_stream(rows.load()).format("noop")
    writer.hooks(after_commit=measure, strict=True)
    query = writer.start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=batches + 1)
    query.awaitTermination()
    return measured
