"""Which batches of a query Spark's optimizer has worked on, and what it makes of each batch."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.clock import SystemClock
from penstock.engine.seam import BatchRequest
from penstock.spark.plan.planning import BatchPlanner

RULE = "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"
"""A rule that the optimizer applies to every plan."""

QUARTER_OF_AN_HOUR_MS = 15 * 60_000


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
    """What the queries of a test have optimized, in one quarter of an hour: see docs/adr/0044."""
    set_clock_back(monkeypatch, _now_ms() % QUARTER_OF_AN_HOUR_MS)
    seen = Optimizations()
    make = BatchPlanner.execution

    def execution(self: BatchPlanner, request: BatchRequest, shape: Any) -> Any:
        made = make(self, request, shape)
        seen.add(made, self.execution_of(made.logical(), request).optimizedPlan())
        return made

    monkeypatch.setattr(BatchPlanner, "execution", execution)
    return seen


def set_clock_back(monkeypatch: pytest.MonkeyPatch, by_ms: int) -> None:
    """Let the system's clock of queries be behind, and go on from there."""
    monkeypatch.setattr(SystemClock, "time_millis", lambda _: _now_ms() - by_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def numbers(session: SparkSession) -> DataFrame:
    """Ten rows in every batch, which is one second of event time."""
    rows = session.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1)
    return rows.load().withWatermark("timestamp", "1 second")
