"""What Spark keeps of the watermarks of earlier batches does not grow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import write_stream
from penstock.engine.seam import BatchRequest
from penstock.spark.plan.planning import BatchPlanner
from tests.spark.optimizations import numbers

BATCHES = 10


def field(of: Any, name: str) -> Any:
    """The value of a private field of a Java object."""
    found = of.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found.get(of)


@pytest.mark.core
@pytest.mark.parametrize("make", [numbers, lambda session: numbers(session).distinct()])
def test_the_watermarks_of_the_last_batches_are_kept_only(
    session: SparkSession,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[SparkSession], DataFrame],
) -> None:
    kept: list[int] = []
    execution = BatchPlanner.execution

    def counted(self: BatchPlanner, request: BatchRequest, shape: Any) -> Any:
        made = execution(self, request, shape)
        propagator = field(self._jplanner, "propagator")
        kept.append(field(propagator, "batchIdToWatermark").size())
        return made

    monkeypatch.setattr(BatchPlanner, "execution", counted)
    query = write_stream(make(session)).format("noop").start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=BATCHES)
    query.awaitTermination()
    assert kept == [1, *[2] * (BATCHES - 1)]
