"""What is asked of a finished batch's physical plan, as functions inside the JVM.

Asked from Python, each operator, each of its figures and each step on the way to it would be a
round trip; put together out of method handles, a question is one.
"""

from __future__ import annotations

from typing import Any

from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles

_SCAN = "StreamSourceAwareSparkPlan"
_STATE_WRITER = "StateStoreWriter"
_WATERMARK = "EventTimeWatermarkExec"
_EVENT_TIMES = "EventTimeStats"
_FUNCTION = "scala.Function1"


class Questions:
    """Makes the questions. Those that are the same for every query are made once per JVM."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._ask = Handles.of(jvm)

    def event_times(self) -> Any:
        """A line for each watermark operator: id, delay, max, min, mean and count of the times."""
        return self._jvm.once("event times", self._make_event_times)

    def state_progress(self) -> Any:
        """A line for each stateful operator: its figures, and the names of those that stay."""
        return self._jvm.once("state progress", self._make_state_progress)

    def state_writers(self) -> Any:
        """The stateful operators themselves, as a Seq."""
        return self._jvm.once(
            "state writers",
            lambda: self._ask.function(self._over_plan(self._ask.collector(_STATE_WRITER))),
        )

    def rows_written(self) -> Any:
        """The rows that a V2 write counted; null if it did not count. A handle, to be built on."""
        return self._jvm.once("rows written", self._make_rows_written)

    def rows_read(self, some_stream: Any) -> Any:
        """The rows that all scans of a stream read. `some_stream` is Scala's Some of it."""
        ask, once = self._ask, self._jvm.once
        of_stream = ask.equal_to(some_stream, ask.call(_SCAN, "getStream"))
        scans = ask.chooser(_SCAN, once("rows of a scan", self._make_rows_of_scan), where=of_stream)
        in_all = once("sum of rows", self._make_sum)
        return ask.function(ask.chain(self._over_plan(scans), in_all))

    def _make_rows_of_scan(self) -> Any:
        ask = self._ask
        of_metric = ask.function(ask.call("SQLMetric", "value"))
        return ask.chain(
            ask.call("SparkPlan", "metrics"),
            ask.call("scala.collection.Map", "get", ("java.lang.Object", "numOutputRows")),
            ask.call("scala.Option", "map", (_FUNCTION, of_metric)),
        )

    def _make_sum(self) -> Any:
        return self._ask.call(
            "scala.collection.IterableOnceOps",
            "sum",
            ("scala.math.Numeric", self._jvm.module("scala.math.Numeric$LongIsIntegral")),
        )

    def _make_event_times(self) -> Any:
        ask = self._ask
        stats = ask.chain(
            ask.call(_WATERMARK, "eventTimeStats"), ask.call("EventTimeStatsAccum", "value")
        )
        seen = [
            ask.chain(stats, ask.call(_EVENT_TIMES, field))
            for field in ("max", "min", "avg", "count")
        ]
        line = ask.line(ask.call(_WATERMARK, "nodeId"), ask.call(_WATERMARK, "delayMs"), *seen)
        operators = self._over_plan(ask.collector(_WATERMARK, line))
        return ask.function(ask.lines(operators))

    def _make_state_progress(self) -> Any:
        ask = self._ask
        figures = "StateOperatorProgress"
        names = ask.chain(
            ask.call(figures, "snapshotCustomMetricNames"),
            ask.call("scala.collection.IterableOnceOps", "mkString", ("java.lang.String", ",")),
        )
        line = ask.chain(
            ask.call(_STATE_WRITER, "getProgress"), ask.line(ask.call(figures, "json"), names)
        )
        operators = self._over_plan(ask.collector(_STATE_WRITER, line))
        return ask.function(ask.lines(operators))

    def _make_rows_written(self) -> Any:
        ask = self._ask
        count = ask.function(ask.call("StreamWriterCommitProgress", "numOutputRows"))
        or_null = ("scala.$less$colon$less", self._jvm.module("scala.$less$colon$less").refl())
        return ask.chain(
            ask.call("WriteToDataSourceV2Exec", "commitProgress"),
            ask.call("scala.Option", "map", (_FUNCTION, count)),
            ask.call("scala.Option", "orNull", or_null),
        )

    def _over_plan(self, operators: Any) -> Any:
        """A handle from a plan to the Seq of what a PartialFunction gives of its operators."""
        ask = self._ask
        collect = self._jvm.once("collect over a plan", self._make_collect)
        return ask.fix(collect, 1, operators).asType(ask.generic(1))

    def _make_collect(self) -> Any:
        collect = self._ask.method(
            "PlanTraverseHelper$", "collectFromUnfoldedPlan", "SparkPlan", "scala.PartialFunction"
        )
        return collect.bindTo(self._jvm.module("PlanTraverseHelper"))
