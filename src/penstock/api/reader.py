"""Reads sources written in Python."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.connectors import PythonSource
from penstock.spark.jvm.support import require_supported
from penstock.spark.sources.python_source import streaming_relation


def read_stream(source: PythonSource, spark: SparkSession | None = None) -> DataFrame:
    """A streaming DataFrame that reads a source written in Python.

    `spark` is by default the active session. The DataFrame can be used in any query that Penstock
    runs; Spark's own engine rejects it.

        df = penstock.read_stream(Counter())
        query = penstock.write_stream(df).format("console").start()
    """
    session = spark or SparkSession.active()
    require_supported(session)
    return streaming_relation(session, source)
