"""How a source written in Python is read."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.connectors import PythonSource
from penstock.spark.jvm.support import require_supported
from penstock.spark.sources.python_source import streaming_relation


def read_stream(source: PythonSource, spark: SparkSession | None = None) -> DataFrame:
    """A streaming DataFrame over a source written in Python.

    It can be used like any other, in any query that Penstock runs; Spark's own engine refuses it.
    """
    session = spark or SparkSession.active()
    require_supported(session)
    return streaming_relation(session, source)
