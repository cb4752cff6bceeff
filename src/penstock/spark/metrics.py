"""A query's gauges in Spark's metrics system, for its JMX, Prometheus and Graphite sinks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.seam import QueryIdentity
from penstock.spark.gateway import Jvm
from penstock.spark.java_classes import new_instance

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class QueryGauges:
    """Registered from its making until `remove`."""

    def __init__(self, spark: SparkSession, identity: QueryIdentity) -> None:
        jvm = Jvm.of(spark)
        self._system = _metrics_system(jvm, spark)
        name = f"spark.streaming.{identity.name or identity.id}"
        self._source = new_instance(jvm, "PenstockMetricsSource", name)
        self._system.registerSource(self._source)

    def update(self, progress: StreamingQueryProgress) -> None:
        """Show the figures of a record."""
        operators = [operator.fields for operator in progress.state_operators]
        self._source.update(
            progress.input_rows_per_second,
            progress.processed_rows_per_second,
            progress.duration_ms.get("triggerExecution", 0),
            _millis(progress.event_time.get("watermark")),
            sum(fields["numRowsTotal"] for fields in operators),
            sum(fields["memoryUsedBytes"] for fields in operators),
        )

    def remove(self) -> None:
        self._system.removeSource(self._source)


def _millis(watermark: str | None) -> int:
    """A time of a progress record since the epoch; 0 without one, or beyond the year 9999."""
    try:
        moment = datetime.fromisoformat(watermark or "")
    except ValueError:
        return 0
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _metrics_system(jvm: Jvm, spark: SparkSession) -> Any:
    """The MetricsSystem of a Spark application.

    Found by its signature: reflection over SparkEnv, which py4j uses, fails where a class that
    another of its methods mentions is not on the class path.
    """
    environment = spark.sparkContext._jsc.sc().env()
    invoke = "java.lang.invoke"
    kind = jvm.cls(f"{invoke}.MethodType").methodType(
        jvm.java_class("org.apache.spark.metrics.MetricsSystem")
    )
    getter = (
        jvm.cls(f"{invoke}.MethodHandles")
        .publicLookup()
        .findVirtual(jvm.java_class("org.apache.spark.SparkEnv"), "metricsSystem", kind)
    )
    return getter.bindTo(environment).invokeWithArguments(jvm.cls("java.util.List").of())
