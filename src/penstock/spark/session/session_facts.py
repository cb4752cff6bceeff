"""Facts about a user's session that the API reads from the JVM."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from penstock.engine.triggers import ProcessingTimeTrigger
from penstock.spark.jvm.gateway import Jvm

_session_keys: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def session_key(spark: SparkSession) -> str:
    """A key of the JVM session, the same for all Python objects that wrap it."""
    found = _session_keys.get(spark)
    if found is None:
        found = _session_keys[spark] = str(spark._jsparkSession.sessionUUID())
    return found


def processing_time_trigger(spark: SparkSession, interval: str) -> ProcessingTimeTrigger:
    """The trigger for an interval such as '5 seconds', parsed as by Spark."""
    triggers = Jvm.of(spark).cls("org.apache.spark.sql.streaming.Trigger")
    return ProcessingTimeTrigger(int(triggers.ProcessingTime(interval).intervalMs()))


def is_run_by_spark(spark: SparkSession, query_id: str) -> bool:
    """Whether Spark's own engine runs the query with this id in this JVM."""
    return bool(Jvm.of(spark).java.start.isRunBySpark(spark._jsparkSession, query_id))


def jvm_query_manager(spark: SparkSession) -> Any:
    """The JVM's StreamingQueryManager of a session, which PySpark's own wraps."""
    return spark._jsparkSession.streams()


def conf_flag(spark: SparkSession, key: str) -> bool:
    return (spark.conf.get(key) or "false").lower() == "true"
