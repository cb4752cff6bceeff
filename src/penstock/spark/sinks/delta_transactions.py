"""The transactions that the log of a Delta table has, by Delta's own reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import ExecutionError
from penstock.spark.jvm.gateway import Jvm

_DELTA_LOG = "org.apache.spark.sql.delta.DeltaLog"


@dataclass(frozen=True)
class DeltaTransaction:
    """The latest version that an application has committed, and when; None if it is unknown."""

    version: int
    committed_at_ms: int | None


def latest_transaction(spark: SparkSession, location: str, app_id: str) -> DeltaTransaction | None:
    """The latest transaction of an application in the table at a location; None if it has none.

    Raises ExecutionError if this Delta has another reader of its log.
    """
    jvm = Jvm.of(spark)
    try:
        snapshot = jvm.cls(_DELTA_LOG).forTableWithSnapshot(spark._jsparkSession, location)._2()
        found = snapshot.transactions().get(app_id)
        if not found.isDefined():
            return None
        version = int(found.get())
        return DeltaTransaction(version, _committed_at(jvm, snapshot, app_id, version))
    except (Py4JError, TypeError, PySparkException) as exc:
        raise ExecutionError(f"The log of the Delta table {location} could not be read") from exc


def _committed_at(jvm: Jvm, snapshot: Any, app_id: str, version: int) -> int | None:
    for transaction in jvm.to_list(snapshot.setTransactions()):
        if transaction.appId() == app_id and int(transaction.version()) == version:
            found = jvm.from_option(transaction.lastUpdated())
            return None if found is None else int(found)
    return None
