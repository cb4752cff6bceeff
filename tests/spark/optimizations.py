"""Which batches of a query Spark's optimizer has worked on, and what it makes of each batch."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.seam import BatchRequest
from penstock.spark.plan.planning import BatchPlanner

RULE = "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"
"""A rule that the optimizer applies to every plan."""


class Optimizations:
    """The executions of a query's batches, each with the plan that Spark makes of the batch."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Any, Any]] = []

    def add(self, execution: Any, optimized: Any) -> None:
        self._pairs.append((execution, optimized))

    @property
    def by_spark(self) -> list[bool]:
        """For each batch, whether Spark's optimizer has applied its rules."""
        return [execution.tracker().rules().contains(RULE) for execution, _ in self._pairs]

    def assert_equal(self) -> None:
        for execution, sparks in self._pairs:
            mine = execution.optimizedPlan()
            if mine.nodeName() == "WriteToDataSourceV2":
                mine, sparks = mine.query(), sparks.query()
            assert mine.schema().json() == sparks.schema().json()
            assert mine.canonicalized().equals(sparks.canonicalized()), f"{mine}\n{sparks}"


@pytest.fixture
def optimizations(monkeypatch: pytest.MonkeyPatch) -> Optimizations:
    seen = Optimizations()
    make = BatchPlanner.execution

    def execution(self: BatchPlanner, request: BatchRequest, shape: Any) -> Any:
        made = make(self, request, shape)
        seen.add(made, self.execution_of(made.logical(), request).optimizedPlan())
        return made

    monkeypatch.setattr(BatchPlanner, "execution", execution)
    return seen


def numbers(session: SparkSession) -> DataFrame:
    """Ten rows in every batch, which is one second of event time."""
    rows = session.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1)
    return rows.load().withWatermark("timestamp", "1 second")
