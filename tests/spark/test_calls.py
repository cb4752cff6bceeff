"""Calls to the JVM without conversion have the results and errors of py4j's own calls."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from penstock.spark.jvm.calls import send
from penstock.spark.jvm.gateway import Jvm


@pytest.mark.parametrize(
    "value", ["", "a\nb\\n\tc", "ü", 0, -1, 2**31, -(2**63), True, False, None], ids=repr
)
def test_an_argument_arrives_as_with_py4j(spark: SparkSession, value: Any) -> None:
    new_list = Jvm.of(spark).cls("java.util.ArrayList")
    found, expected = new_list(), new_list()
    send(found, "add", value)
    expected.add(value)
    assert send(found, "equals", expected) is True
    assert send(found, "get", 0) == value


def test_an_error_of_spark_is_one_of_pyspark(spark: SparkSession) -> None:
    conf = spark._jsparkSession.conf()
    with pytest.raises(IllegalArgumentException):
        send(conf, "set", "spark.sql.shuffle.partitions", "many")
