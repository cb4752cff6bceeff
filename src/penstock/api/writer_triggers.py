"""The triggers that `DataStreamWriter.trigger` takes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession

from penstock.api.process import PROCESS
from penstock.engine.triggers import AvailableNowTrigger, OneTimeTrigger, Trigger
from penstock.errors import PaceError, UnknownTriggerError, UnsupportedError
from penstock.spark.jvm.pyspark_api import new_error
from penstock.spark.session.session_facts import processing_time_trigger


def checked_trigger(trigger: Trigger, others: Sequence[object]) -> Trigger:
    """The given trigger. Raises UnknownTriggerError if it is not one, and PySpark's error if one
    of PySpark's arguments is given too."""
    if not isinstance(trigger, Trigger):
        raise UnknownTriggerError(
            f"Unknown type of trigger: {trigger!r}. Give a penstock.Trigger, such as "
            "penstock.Cron('*/5 * * * *'), or one of PySpark's arguments by its name, such as "
            "processingTime='5 seconds'."
        )
    if any(other is not None for other in others):
        raise new_error(PySparkValueError, "ONLY_ALLOW_SINGLE_TRIGGER", {})
    return trigger


def pyspark_trigger(
    spark: SparkSession, interval: str | None, once: bool | None, available_now: bool | None
) -> Trigger | None:
    """The trigger of PySpark's arguments, which PySpark has checked; None for another one."""
    if interval is not None:
        return processing_time_trigger(spark, interval)
    if once is not None:
        return OneTimeTrigger()
    return AvailableNowTrigger() if available_now is not None else None


def require_limits(trigger: Trigger) -> None:
    """Raise PaceError for a trigger that reads all data in one batch, whatever its size."""
    if isinstance(trigger, OneTimeTrigger):
        raise PaceError(
            "pace() sets the size of batches, and trigger(once=True) reads all available data in "
            "one. Use trigger(availableNow=True), which reads it in several batches."
        )


def unsupported_trigger(name: str) -> UnsupportedError:
    """The error for a trigger of PySpark that Penstock does not have."""
    spark_writer = "df.writeStream"
    if PROCESS.replaced_members:
        spark_writer = (
            "pyspark.sql.streaming.DataStreamWriter(df) in place of df.writeStream, which starts "
            "queries on Penstock until penstock.uninstall()"
        )
    return UnsupportedError(
        f"Penstock runs micro-batches; the trigger {name!r} is not supported. Use processingTime, "
        f"once or availableNow, or start this query with Spark's own engine: {spark_writer}."
    )
