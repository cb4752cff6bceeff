"""The current snapshot of an Iceberg table, by Iceberg's own classes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.spark.jvm.gateway import Jvm

_logger = logging.getLogger(__name__)

_SPARK_UTIL = "org.apache.iceberg.spark.Spark3Util"


def current_properties(
    spark: SparkSession, table: str, names: Sequence[str]
) -> tuple[str | None, ...] | None:
    """Properties in the summary of the current snapshot of a table, read anew, without a Spark job.

    None for one that the summary does not have; None instead of the tuple if the table has no
    snapshot, or if this Iceberg has other classes.
    """
    jvm = Jvm.of(spark)
    try:
        found: Any = jvm.cls(_SPARK_UTIL).loadIcebergTable(spark._jsparkSession, table)
        found.refresh()
        snapshot = found.currentSnapshot()
        if snapshot is None:
            return None
        summary = snapshot.summary()
        return tuple(summary.get(name) for name in names)
    except (Py4JError, TypeError, PySparkException) as exc:
        _logger.debug("The current snapshot of %s could not be read", table, exc_info=exc)
        return None
