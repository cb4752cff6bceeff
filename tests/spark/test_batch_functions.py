"""What sources of Spark's first API may get wrong, noticed inside the JVM."""

from __future__ import annotations

from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from penstock.spark.batch_functions import BatchFunctions
from penstock.spark.gateway import Jvm


class Answering:
    """A source that answers every request with one and the same Dataset."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def getBatch(self, start: Any, end: Any) -> Any:
        return self._dataset

    class Java:
        implements = ("org.apache.spark.sql.execution.streaming.Source",)


def plan_of_batch(session: SparkSession, dataset: Any) -> Any:
    jvm = Jvm.of(session)
    ensure_callback_server_started(jvm.gateway)  # type: ignore[no-untyped-call]
    end = jvm.cls("org.apache.spark.sql.execution.streaming.runtime.LongOffset")(1)
    return BatchFunctions(jvm).get_batch(Answering(dataset)).apply(None, end)


def any_stream(jvm: Jvm) -> Any:
    options = jvm.cls("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()
    return jvm.cls("MarkerStream")(1, 1, 0, 1, options)


def test_a_batch_of_a_stream_is_its_plan(session: SparkSession) -> None:
    stream = session.readStream.format("rate").load()._jdf
    assert plan_of_batch(session, stream).equals(stream.logicalPlan())


def test_a_batch_that_is_not_of_a_stream_is_the_text_of_its_plan(session: SparkSession) -> None:
    rows = session.range(3)._jdf
    assert plan_of_batch(session, rows) == rows.queryExecution().logical().toString()


def test_a_plan_takes_the_columns_of_the_leaf(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    leaf = session.range(1).selectExpr("id as a", "id as b")._jdf.logicalPlan()
    batch = session.range(1).selectExpr("id as c", "id + 1 as d")._jdf.logicalPlan()
    leaves = jvm.cls("java.util.IdentityHashMap")()
    put = BatchFunctions(jvm).put_plan(leaves, leaf, any_stream(jvm))
    assert put.apply(batch) is None
    names_and_ids = [(c.name(), c.exprId().toString()) for c in jvm.to_list(leaf.output())]
    put_there = leaves.get(leaf)
    assert put_there.child().equals(batch)
    assert [
        (c.name(), c.exprId().toString()) for c in jvm.to_list(put_there.output())
    ] == names_and_ids


def test_a_plan_with_other_columns_is_not_put_there(session: SparkSession) -> None:
    jvm = Jvm.of(session)
    leaf = session.range(1).selectExpr("id as a", "id as b")._jdf.logicalPlan()
    leaves = jvm.cls("java.util.IdentityHashMap")()
    put = BatchFunctions(jvm).put_plan(leaves, leaf, any_stream(jvm))
    batch = session.range(1)._jdf.logicalPlan()
    assert put.apply(batch) == batch.output().mkString(",")
    assert leaves.isEmpty()
