"""Batches that differ only in their offsets are optimized once: see docs/adr/0039."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import read_stream, write_stream
from penstock.engine.seam import BatchRequest
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import compiled, new_instance
from penstock.spark.jvm.java_sources import JavaFile
from penstock.spark.plan.planning import BatchPlanner
from tests.streams import LineFiles, Numbers

BATCHES = 6
OPTIMIZED_BY_SPARK = [True, True, True, False, False, False]
"""The first batch is analyzed, the plan of the second kept, and that of the third confirms it."""

RULE = "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"
"""A rule that the optimizer applies to every plan."""

Program = Callable[[SparkSession], DataFrame]


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


def joined(session: SparkSession) -> DataFrame:
    left, right = numbers(session).alias("l"), numbers(session).alias("r")
    on = F.expr("l.value = r.value and l.timestamp = r.timestamp")
    return left.join(right, on).select("l.value")


def with_python_function(session: SparkSession) -> DataFrame:
    plus_one = F.udf(lambda n: n + 1, "long")
    return numbers(session).select(plus_one("value").alias("value")).where("value > 3")


KEPT: dict[str, Program] = {
    "rows": numbers,
    "filter": lambda s: numbers(s).where("value % 2 = 0 and timestamp is not null"),
    "windows": lambda s: numbers(s).groupBy(F.window("timestamp", "2 seconds")).count(),
    "distinct": lambda s: numbers(s).dropDuplicates(["value", "timestamp"]),
    "join": joined,
    "union": lambda s: numbers(s).union(numbers(s)).select("value"),
    "python": with_python_function,
    "observed": lambda s: numbers(s).observe("seen", F.count(F.lit(1)).alias("rows")),
}

NOT_KEPT: dict[str, Program] = {
    "clock": lambda s: numbers(s).where("timestamp < current_timestamp()"),
    "random": lambda s: numbers(s).withColumn("chance", F.rand()),
    "subquery": lambda s: numbers(s).where("value > (select min(id) from range(3))"),
    "table": lambda s: numbers(s).join(s.range(5), F.expr("value = id")),
}


def read_all(batch: DataFrame, batch_id: int) -> None:
    batch.count()


def run(df: DataFrame, checkpoint: Path, sink: str, batches: int = BATCHES) -> None:
    """Run some batches, to the sink `function` or to one of Spark's."""
    writer = write_stream(df)
    if sink == "function":
        writer.foreachBatch(read_all)
    else:
        writer.format(sink)
    query = writer.start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=batches)
    query.awaitTermination()


@pytest.mark.core
@pytest.mark.parametrize("sink", ["noop", "function"])
@pytest.mark.parametrize("name", KEPT)
def test_an_optimized_plan_serves_later_batches(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations, name: str, sink: str
) -> None:
    run(KEPT[name](session), checkpoint, sink)
    assert optimizations.by_spark == OPTIMIZED_BY_SPARK
    optimizations.assert_equal()


@pytest.mark.parametrize("name", NOT_KEPT)
def test_a_plan_whose_optimization_may_differ_is_optimized_in_every_batch(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations, name: str
) -> None:
    run(NOT_KEPT[name](session), checkpoint, "noop")
    assert optimizations.by_spark == [True] * BATCHES


def test_the_data_of_v1_sources_is_optimized_in_every_batch(
    session: SparkSession, checkpoint: Path, tmp_path: Path, optimizations: Optimizations
) -> None:
    files = LineFiles(tmp_path / "in")
    for line in "abcdef":
        files.add(line)
    run(files.stream(session), checkpoint, "noop")
    assert optimizations.by_spark == [True] * BATCHES


def test_another_set_of_sources_with_data_has_its_own_plan(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    # The second source is V1: as long as it is empty, the optimizer removes it.
    second = Numbers(0)
    both = numbers(session).select("value").union(read_stream(second, session))
    counts: list[int] = []

    def count(batch: DataFrame, batch_id: int) -> None:
        counts.append(batch.count())
        if batch_id == BATCHES - 1:
            second.available += 1

    query = write_stream(both).foreachBatch(count).start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=BATCHES + 2)
    query.awaitTermination()
    assert counts == [10] * BATCHES + [11, 10]
    assert optimizations.by_spark == [*OPTIMIZED_BY_SPARK, True, False]
    optimizations.assert_equal()


def test_a_changed_setting_makes_spark_optimize_again(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    def change(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 4:
            batch.sparkSession.conf.set(
                "spark.sql.optimizer.excludedRules",
                "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
            )

    rows = numbers(session).selectExpr("value + 1 as v").where("v % 2 = 0")
    query = write_stream(rows).foreachBatch(change).start(checkpointLocation=str(checkpoint))
    query.stop_after(batches=8)
    query.awaitTermination()
    assert optimizations.by_spark == [True, True, True, False, False, True, True, False]
    optimizations.assert_equal()


OWN_RULE = """
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** A rule of a session, which changes nothing. */
public class OwnRule extends Rule {
    public TreeNode apply(TreeNode plan) { return plan; }
}
"""


def test_a_session_with_its_own_rules_optimizes_every_batch(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    jvm = Jvm.of(session)
    loader = compiled(jvm, [JavaFile("OwnRule.java", OWN_RULE)], "penstock.tests")
    rule = new_instance(jvm, loader, "OwnRule", "penstock.tests")
    experimental = session._jsparkSession.experimental()
    getattr(experimental, "extraOptimizations_$eq")(jvm.seq([rule]))
    run(numbers(session), checkpoint, "noop")
    assert optimizations.by_spark == [True] * BATCHES
