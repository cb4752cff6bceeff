"""Reads the statistics of a finished batch from its physical plan."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.engine.data_stream import DataStream
from penstock.engine.progress import ExecutionStats, StateOperatorProgress
from penstock.engine.watermark import EventTimeStats
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of, records_of
from penstock.spark.session.jvm_events import ObservedRow

_logger = logging.getLogger(__name__)


class PlanStatistics:
    """Reads the metrics of the operators of a batch. Created once per query.

    Each method makes one py4j round trip.
    """

    def __init__(
        self,
        jvm: Jvm,
        jplan: Any,
        sources: Sequence[DataStream],
        *,
        has_watermark: bool,
        has_state: bool,
        has_observations: bool,
    ) -> None:
        """The flags say what the plan contains; anything else is not read from its batches.

        `jplan` is the StreamingPlan inside the JVM, whose leaves read `sources`, in that order.
        """
        self._jvm = jvm
        self._jplan = jplan
        self._has_warned = False
        self.has_state = has_state
        self.has_any = has_state or has_watermark or has_observations
        self._has_observations = has_observations
        self._figures = jvm.java.figures
        self._has_watermark = has_watermark
        self._sources = sources

    def event_time_stats(self, execution: Any) -> list[EventTimeStats]:
        """The event-time statistics of each watermark operator of a batch."""
        if not self._has_watermark:
            return []
        records = records_of(self._figures.eventTimes(execution))
        return [_event_time_stats(*fields) for fields in records]

    def state_operators(self, execution: Any) -> list[StateOperatorProgress]:
        """The progress of each stateful operator."""
        if not self.has_state:
            return []
        return [
            self._state_operator(*fields)
            for fields in records_of(self._figures.stateProgress(execution))
        ]

    def _state_operator(self, progress: str, snapshot_metrics: str) -> StateOperatorProgress:
        names = frozenset(snapshot_metrics.split(",")) if snapshot_metrics else frozenset()
        return StateOperatorProgress(json.loads(progress), names, self._jvm.line.batch_figures)

    def state_store_writers(self, execution: Any) -> list[Any]:
        """The stateful operators of a batch."""
        return self._jvm.to_list(self._figures.stateWriters(execution)) if self.has_state else []

    def input_rows(self, execution: Any) -> dict[DataStream, int]:
        """The rows read from each source; one that is scanned twice counts twice.

        Empty if the rows of the batch cannot be attributed to the sources; logged once.
        """
        answer = self._figures.rowsRead(self._jplan, execution)
        if answer is not None:
            rows: dict[DataStream, int] = {}
            for source, count in zip(self._sources, fields_of(answer), strict=True):
                rows.setdefault(source, int(count))
            return rows
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("%s", self._figures.mismatch(execution))
        return {}

    def observed_metrics(self, execution: Any) -> Mapping[str, ObservedRow]:
        """The metrics that `DataFrame.observe` collected in the batch."""
        if not self._has_observations:
            return {}
        metrics = execution.observedMetrics()
        return {
            entry._1(): ObservedRow(_values(entry._2()), entry._2())
            for entry in self._jvm.to_list(metrics.toSeq())
        }

    def of(
        self,
        execution: Any,
        event_time: Sequence[EventTimeStats],
        *,
        has_new_data: bool,
    ) -> ExecutionStats:
        """All statistics, for the progress record."""
        operators = self.state_operators(execution)
        is_observed = has_new_data or self._jvm.line.observes_empty_batches
        observed = self.observed_metrics(execution) if is_observed else {}
        if not has_new_data:
            return ExecutionStats(state_operators=operators, observed_metrics=observed)
        return ExecutionStats(
            input_rows=self.input_rows(execution),
            state_operators=operators,
            event_time=_event_time(event_time, self._jvm.line.event_time_text),
            observed_metrics=observed,
        )


def _values(row: Any) -> dict[str, Any]:
    """The values of an observed metric, as in Spark's JSON. Those that this cannot have are texts.

    An interval is one of them.
    """
    try:
        values: dict[str, Any] = json.loads(row.json())
    except (Py4JJavaError, PySparkException):
        names = list(row.schema().fieldNames())
        return {name: _shown(row.get(index)) for index, name in enumerate(names)}
    return values


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _event_time_stats(
    node_id: str, delay_ms: str, max_ms: str, min_ms: str, avg_ms: str, count: str
) -> EventTimeStats:
    if int(count) == 0:
        return EventTimeStats(node_id, int(delay_ms), 0)
    return EventTimeStats(
        node_id, int(delay_ms), int(count), int(max_ms), int(min_ms), float(avg_ms)
    )


def _event_time(stats: Sequence[EventTimeStats], text: Callable[[int], str]) -> dict[str, str]:
    """The event times of the first operator that has any, as Spark reports them."""
    first = next((s for s in stats if s.count > 0), None)
    if first is None:
        return {}
    return {
        "max": text(first.max_ms),
        "min": text(first.min_ms),
        "avg": text(int(first.avg_ms)),
    }
