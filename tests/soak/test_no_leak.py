"""A query keeps no more JVM objects alive after 200 batches than after 50."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.soak.long_run import run

BATCHES = 200
EVERY = 50


def test_a_query_holds_no_more_after_many_batches(spark: SparkSession, checkpoint: Path) -> None:
    measured = run(spark, checkpoint, BATCHES, EVERY)
    assert list(measured) == list(range(EVERY, BATCHES + 1, EVERY))
    first, last = measured[EVERY], measured[BATCHES]
    held = {batch_id: vitals.py4j_references for batch_id, vitals in measured.items()}
    # A leak of one object per batch would be 150 objects. Objects of earlier tests may still be
    # released.
    assert last.py4j_references <= first.py4j_references + 5, held
    assert last.python_threads <= first.python_threads + 2, measured
    assert last.python_descriptors <= first.python_descriptors + 5, measured
    assert last.jvm_descriptors <= first.jvm_descriptors + 20, measured
