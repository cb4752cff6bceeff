"""Read limits of Spark and of connectors, converted for the engine and back."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.engine.read_limit import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.sources.read_limits import from_jvm, to_jvm

_OF_A_CONNECTOR = """
package connector;

public class ReadMaxBytes implements org.apache.spark.sql.connector.read.streaming.ReadLimit {
    public long maxBytes() { return 7L; }
}
"""


@pytest.mark.parametrize(
    "limit",
    [
        ALL_AVAILABLE,
        ReadMaxRows(3),
        ReadMinRows(3, 1000),
        ReadMaxFiles(4),
        pytest.param(ReadMaxBytes(5), marks=pytest.mark.since("4.0", "ReadMaxBytes")),
        CompositeReadLimit((ReadMaxRows(3), ReadMaxFiles(4))),
    ],
    ids=str,
)
def test_a_limit_of_spark_is_converted_both_ways(spark: SparkSession, limit: ReadLimit) -> None:
    assert from_jvm(to_jvm(Jvm.of(spark), limit)) == limit


def test_a_limit_of_a_connector_stays_its_own_even_with_a_name_of_sparks(
    spark: SparkSession,
) -> None:
    jvm = Jvm.of(spark)
    compiler = jvm.cls("org.codehaus.janino.SimpleCompiler")()
    loader = jvm.cls("java.lang.Thread").currentThread().getContextClassLoader()
    compiler.setParentClassLoader(loader)
    compiler.cook(_OF_A_CONNECTOR)
    [constructor] = compiler.getClassLoader().loadClass("connector.ReadMaxBytes").getConstructors()
    nothing = jvm.array(jvm.cls("java.lang.Object"), [])
    own, other = constructor.newInstance(nothing), constructor.newInstance(nothing)
    converted = from_jvm(own)
    assert to_jvm(jvm, converted) == own
    assert converted != from_jvm(other)
