"""Batches that differ only in their offsets are optimized once: see docs/adr/0039."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import read_stream, write_stream
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import compiled, new_instance
from penstock.spark.jvm.java_sources import JavaFile
from penstock.testing import ManualClock
from tests.crash.pipelines import PIPELINES, Workspace, run_pipeline
from tests.spark.driver_classes import add_driver_classes
from tests.spark.optimizations import Optimizations, numbers
from tests.streams import LineFiles, Numbers

BATCHES = 6
OPTIMIZED_BY_SPARK = [True, True, True, False, False, False]
"""The first batch is analyzed, the plan of the second kept, and that of the third confirms it."""

Program = Callable[[SparkSession], DataFrame]


def joined(session: SparkSession) -> DataFrame:
    left, right = numbers(session).alias("l"), numbers(session).alias("r")
    on = F.expr("l.value = r.value and l.timestamp = r.timestamp")
    return left.join(right, on).select("l.value")


def with_python_function(session: SparkSession) -> DataFrame:
    plus_one = F.udf(lambda n: n + 1, "long")
    return numbers(session).select(plus_one("value").alias("value")).where("value > 3")


def with_variable(session: SparkSession) -> DataFrame:
    session.sql("DECLARE OR REPLACE VARIABLE opening STRING DEFAULT '09:00'")
    opened = numbers(session).selectExpr("*", "opening as t")
    return opened.where("timestamp > cast(t as timestamp)")


def later_than(session: SparkSession, opening: str) -> DataFrame:
    """The rows after a time of the day, an expression of the text `t`, '09:00'."""
    return numbers(session).withColumn("t", F.lit("09:00")).where(f"timestamp > {opening}")


def with_time(session: SparkSession) -> DataFrame:
    session.conf.set("spark.sql.timeType.enabled", "true")
    return later_than(session, "cast(cast(t as time) as timestamp)")


KEPT: dict[str, Program] = {
    "rows": numbers,
    "filter": lambda s: numbers(s).where("value % 2 = 0 and timestamp is not null"),
    "windows": lambda s: numbers(s).groupBy(F.window("timestamp", "2 seconds")).count(),
    "distinct": lambda s: numbers(s).dropDuplicates(["value", "timestamp"]),
    "join": joined,
    "union": lambda s: numbers(s).union(numbers(s)).select("value"),
    "python": with_python_function,
    "parsed": lambda s: numbers(s).where(
        "cast(cast(timestamp as string) as timestamp) > timestamp - interval 1 day"
    ),
    "observed": lambda s: numbers(s).observe("seen", F.count(F.lit(1)).alias("rows")),
}

NOT_KEPT: dict[str, Program] = {
    "clock": lambda s: numbers(s).where("timestamp < current_timestamp()"),
    "today": lambda s: numbers(s).where("cast(timestamp as date) <= 'today'"),
    "time of day": lambda s: numbers(s).where("timestamp > cast('09:00:00' as timestamp)"),
    "to_date": lambda s: numbers(s).select(F.to_date(F.lit("today")).alias("day"), "value"),
    "hour": lambda s: numbers(s).where("timestamp > date_trunc('year', 'now')"),
    "cast further up": lambda s: later_than(s, "cast(t as timestamp)"),
    "nested cast": lambda s: later_than(s, "cast(array(t) as array<timestamp>)[0]"),
    "document": lambda s: later_than(s, "from_json('[\"' || t || '\"]', 'array<timestamp>')[0]"),
    "variable": with_variable,
    "random": lambda s: numbers(s).withColumn("chance", F.rand()),
    "subquery": lambda s: numbers(s).where("value > (select min(id) from range(3))"),
    "table": lambda s: numbers(s).join(s.range(5), F.expr("value = id")),
}

NOT_KEPT_SINCE: dict[tuple[str, str], Program] = {
    ("4.0", "variant"): lambda s: later_than(s, "cast(cast(t as variant) as timestamp)"),
    ("4.0", "variant_get"): lambda s: later_than(
        s, "variant_get(parse_json('\"' || t || '\"'), '$', 'timestamp')"
    ),
    ("4.3", "time"): with_time,
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


@pytest.mark.parametrize(
    "program",
    [
        *(pytest.param(program, id=name) for name, program in NOT_KEPT.items()),
        *(
            pytest.param(program, id=name, marks=pytest.mark.since(line, name))
            for (line, name), program in NOT_KEPT_SINCE.items()
        ),
    ],
)
def test_a_plan_whose_optimization_may_differ_is_optimized_in_every_batch(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations, program: Program
) -> None:
    run(program(session), checkpoint, "noop")
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


def test_a_plan_is_not_kept_until_the_date_may_have_changed(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    clock = ManualClock(datetime(2024, 1, 1, 18, 29, tzinfo=UTC))

    def go_on(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        # It is midnight in India.
        if batch_id == 4:
            clock.advance(60)

    writer = write_stream(numbers(session)).foreachBatch(go_on).clock(clock)
    query = writer.start(checkpointLocation=str(checkpoint))
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


@pytest.mark.parametrize("package", ["penstock.tests", "org.apache.spark.sql.catalyst.optimizer"])
def test_a_session_with_its_own_rules_optimizes_every_batch(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations, package: str
) -> None:
    jvm = Jvm.of(session)
    loader = compiled(jvm, [JavaFile("OwnRule.java", OWN_RULE)], package)
    rule = new_instance(jvm, loader, "OwnRule", package)
    experimental = session._jsparkSession.experimental()
    getattr(experimental, "extraOptimizations_$eq")(jvm.seq([rule]))
    run(numbers(session), checkpoint, "noop")
    assert optimizations.by_spark == [True] * BATCHES


@pytest.mark.extended
def test_a_session_with_hive_support_keeps_plans() -> None:
    """In a process of its own, as Hive support is a setting of the application."""
    in_memory = "spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:derby:memory:hive;create=true"
    conf = f'--conf spark.sql.catalogImplementation=hive --conf "{in_memory}" pyspark-shell'
    same_test = ["-k", "serves_later_batches and rows-noop"]
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", __file__, *same_test],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": conf},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stdout
    assert "1 passed" in child.stdout


@pytest.fixture
def own_tables(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Makes the classes of OwnTables.java known as formats."""
    source = Path(__file__).with_name("OwnTables.java")
    add_driver_classes(Jvm.of(session), source, tmp_path_factory.mktemp("classes"))


@pytest.mark.usefixtures("own_tables")
def test_a_source_with_statistics_is_optimized_in_every_batch(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    rows = session.readStream.format("CountedNumbers").options(rowsPerBatch=10).load()
    run(rows, checkpoint, "noop")
    assert optimizations.by_spark == [True] * BATCHES


@pytest.mark.usefixtures("own_tables")
def test_the_plan_of_a_sink_that_asks_for_a_distribution_is_not_kept(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    run(numbers(session), checkpoint, "ClusteredNoop")
    assert optimizations.by_spark == [True] * BATCHES
    optimizations.assert_equal()


@pytest.mark.usefixtures("own_tables")
def test_the_plan_of_a_sink_in_a_catalog_is_not_kept(
    session: SparkSession, checkpoint: Path, optimizations: Optimizations
) -> None:
    session.conf.set("spark.sql.catalog.nowhere", "NoopCatalog")
    writer = write_stream(numbers(session)).option("checkpointLocation", str(checkpoint))
    query = writer.toTable("nowhere.default.rows")
    query.stop_after(batches=BATCHES)
    query.awaitTermination()
    assert optimizations.by_spark == [True] * BATCHES
    optimizations.assert_equal()


def test_the_pipeline_that_is_killed_has_kept_plans(
    session: SparkSession, tmp_path: Path, optimizations: Optimizations
) -> None:
    """`make crash` kills it after that many batches."""
    run_pipeline(session, "numbers", Workspace(tmp_path / "work"))
    first = PIPELINES["numbers"].first_kill
    assert not any(optimizations.by_spark[first:])
    optimizations.assert_equal()
