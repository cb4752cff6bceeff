"""A query's gauges in Spark's metrics system, for its JMX, Prometheus and Graphite sinks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql import SparkSession

from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.seam import QueryIdentity
from penstock.spark.jvm.gateway import Jvm

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class QueryGauges:
    """Registers the gauges on construction and removes them in `remove`."""

    def __init__(self, spark: SparkSession, identity: QueryIdentity) -> None:
        name = f"spark.streaming.{identity.name or identity.id}"
        context = spark.sparkContext._jsc.sc()
        self._gauges = Jvm.of(spark).java.start.gauges(context, name)

    def update(self, progress: StreamingQueryProgress) -> None:
        """Set the gauges to the values of a progress record."""
        operators = [operator.fields for operator in progress.state_operators]
        self._gauges.update(
            progress.input_rows_per_second,
            progress.processed_rows_per_second,
            progress.duration_ms.get("triggerExecution", 0),
            _millis(progress.event_time.get("watermark")),
            sum(fields["numRowsTotal"] for fields in operators),
            sum(fields["memoryUsedBytes"] for fields in operators),
        )

    def remove(self) -> None:
        self._gauges.remove()


def _millis(watermark: str | None) -> int:
    """Parse a time to epoch milliseconds; 0 for None or a year beyond 9999."""
    try:
        moment = datetime.fromisoformat(watermark or "")
    except ValueError:
        return 0
    return (moment - _EPOCH) // timedelta(milliseconds=1)
