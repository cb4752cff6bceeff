"""What a finished batch says about itself, read off its physical plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.engine.data_stream import DataStream
from penstock.engine.progress import ExecutionStats, StateOperatorProgress, format_timestamp
from penstock.engine.watermark import EventTimeStats
from penstock.spark.events import ObservedRow
from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles

_OUTPUT_ROWS = "numOutputRows"


class PlanStatistics:
    """Finds the operators that count and asks them. Made once per query."""

    def __init__(
        self, jvm: Jvm, *, has_watermark: bool, has_state: bool, has_observations: bool
    ) -> None:
        """What the query cannot have is not looked for in its batches."""
        self._jvm = jvm
        self._has_watermark = has_watermark
        self.has_state = has_state
        self._has_observations = has_observations
        self._collect = jvm.module("PlanTraverseHelper").collectFromUnfoldedPlan
        handles = Handles(jvm)
        self._nothing = handles.nothing()
        self._watermarks = handles.collector("EventTimeWatermarkExec")
        self._state_writers = handles.collector("StateStoreWriter")
        self._scans = handles.collector("StreamSourceAwareSparkPlan")

    def event_time_stats(self, plan: Any) -> list[EventTimeStats]:
        """What each watermark operator of an executed plan saw."""
        found: list[EventTimeStats] = []
        if not self._has_watermark:
            return found
        for operator in self._nodes(plan, self._watermarks):
            stats = operator.eventTimeStats().value()
            count = stats.count()
            node_id, delay = operator.nodeId().toString(), operator.delayMs()
            if count > 0:
                found.append(
                    EventTimeStats(node_id, delay, count, stats.max(), stats.min(), stats.avg())
                )
            else:
                found.append(EventTimeStats(node_id, delay, 0))
        return found

    def state_operators(self, plan: Any) -> list[StateOperatorProgress]:
        """The figures of each stateful operator."""
        return [
            StateOperatorProgress(json.loads(progress.json()), self._snapshot_metrics(progress))
            for progress in (n.getProgress() for n in self.state_store_writers(plan))
        ]

    def state_store_writers(self, plan: Any) -> list[Any]:
        """The stateful operators of an executed plan."""
        return self._nodes(plan, self._state_writers) if self.has_state else []

    def input_rows(
        self, plan: Any, streams: Sequence[tuple[Any, DataStream]]
    ) -> dict[DataStream, int]:
        """The rows read from each source; one that is scanned twice counts twice.

        `streams` are Scala's Some of what stands for a source in the plan, each with its source.
        """
        rows: dict[DataStream, int] = {}
        for node in self._nodes(plan, self._scans):
            stream = node.getStream()
            source = next((source for some, source in streams if some.equals(stream)), None)
            if source is not None:
                metric = node.metrics().getOrElse(_OUTPUT_ROWS, self._nothing)
                counted = 0 if metric is None else int(metric.value())
                rows[source] = rows.get(source, 0) + counted
        return rows

    def observed_metrics(self, execution: Any) -> Mapping[str, ObservedRow]:
        """What `DataFrame.observe` collected in the batch."""
        if not self._has_observations:
            return {}
        metrics = execution.observedMetrics()
        return {
            entry._1(): ObservedRow(json.loads(entry._2().json()), entry._2())
            for entry in self._jvm.to_list(metrics.toSeq())
        }

    def of(
        self,
        execution: Any,
        plan: Any,
        streams: Sequence[tuple[Any, DataStream]],
        event_time: Sequence[EventTimeStats],
        *,
        has_new_data: bool,
    ) -> ExecutionStats:
        """All of it, for progress. `plan` is the executed one."""
        operators = self.state_operators(plan)
        observed = self.observed_metrics(execution)
        if not has_new_data:
            return ExecutionStats(state_operators=operators, observed_metrics=observed)
        return ExecutionStats(
            input_rows=self.input_rows(plan, streams),
            state_operators=operators,
            event_time=_event_time(event_time),
            observed_metrics=observed,
        )

    def _nodes(self, plan: Any, collector: Any) -> list[Any]:
        return self._jvm.to_list(self._collect(plan, collector))

    def _snapshot_metrics(self, progress: Any) -> frozenset[str]:
        names = progress.snapshotCustomMetricNames()
        return frozenset(self._jvm.to_list(names.toSeq())) if names.nonEmpty() else frozenset()


def _event_time(stats: Sequence[EventTimeStats]) -> dict[str, str]:
    """The times of the first operator that saw any, as Spark reports them."""
    first = next((s for s in stats if s.count > 0), None)
    if first is None:
        return {}
    return {
        "max": format_timestamp(first.max_ms),
        "min": format_timestamp(first.min_ms),
        "avg": format_timestamp(int(first.avg_ms)),
    }
