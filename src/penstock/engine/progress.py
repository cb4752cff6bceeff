"""The progress record of a trigger, with the fields of Spark's StreamingQueryProgress."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from penstock.checkpoint.json_text import json_or_text
from penstock.engine.named_sinks import SinkOutcome
from penstock.engine.source_pace import SourcePace

NO_OUTPUT_ROWS = -1
"""The number of output rows of a sink that does not count them."""

QUARANTINED_PARTS = "quarantinedParts"
"""The metric of a source in a batch that leaves out parts of it: how many."""

_ALL_DIGITS = Context(prec=400)
"""Precise enough for every digit of the largest float."""

_FRACTIONAL_METRICS = ("avgOffsetsBehindLatest",)
"""Metrics of a source that are written with one decimal."""


@dataclass(frozen=True)
class SourceProgress:
    """The progress of one source. Offsets are JSON texts, None if there is no offset.

    `pace` is the limit of a paced query, which is in the JSON as `metrics`; None if it had none.
    """

    description: str
    start_offset: str | None
    end_offset: str | None
    latest_offset: str | None
    num_input_rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    metrics: Mapping[str, str] = field(default_factory=dict)
    pace: SourcePace | None = None

    def to_dict(self, *, is_rounded: bool = True) -> dict[str, Any]:
        metrics = self.metrics
        if is_rounded:
            metrics = {name: _metric(name, text) for name, text in metrics.items()}
        return {
            "description": self.description,
            "startOffset": json_or_text(self.start_offset),
            "endOffset": json_or_text(self.end_offset),
            "latestOffset": json_or_text(self.latest_offset),
            "numInputRows": self.num_input_rows,
            **_rate("inputRowsPerSecond", self.input_rows_per_second, is_rounded),
            **_rate("processedRowsPerSecond", self.processed_rows_per_second, is_rounded),
            **_filled("metrics", metrics),
        }


@dataclass(frozen=True)
class SinkProgress:
    """The progress of the sink. The outcomes of many sinks are in the JSON as `metrics`."""

    description: str
    num_output_rows: int = NO_OUTPUT_ROWS
    metrics: Mapping[str, str] = field(default_factory=dict)
    outcomes: Sequence[SinkOutcome] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "description": self.description,
            "numOutputRows": self.num_output_rows,
            **_filled("metrics", self.metrics),
        }


@dataclass(frozen=True)
class StateOperatorProgress:
    """The metrics of a stateful operator, by Spark's names.

    `snapshot_metrics` names the custom metrics that describe the current state rather than the work
    of one batch, `of_the_batch` the other fields that describe the work of one batch.
    """

    fields: Mapping[str, Any]
    snapshot_metrics: frozenset[str] = frozenset()
    of_the_batch: frozenset[str] = frozenset(
        {
            "numRowsUpdated",
            "allUpdatesTimeMs",
            "numRowsRemoved",
            "allRemovalsTimeMs",
            "commitTimeMs",
            "numRowsDroppedByWatermark",
        }
    )

    def without_execution(self) -> StateOperatorProgress:
        """The record for a trigger without a batch: metrics of the batch's work are 0."""
        fields = {**self.fields, **dict.fromkeys(self.of_the_batch, 0)}
        if "customMetrics" in fields:
            fields["customMetrics"] = {
                name: value if name in self.snapshot_metrics else 0
                for name, value in fields["customMetrics"].items()
            }
        return replace(self, fields=fields)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.fields)


@dataclass(frozen=True)
class ExecutionStats:
    """The statistics of a batch's execution. `input_rows` has the number of rows by source."""

    input_rows: Mapping[Any, int] = field(default_factory=dict)
    state_operators: Sequence[StateOperatorProgress] = ()
    event_time: Mapping[str, str] = field(default_factory=dict)
    output_rows: int | None = None
    observed_metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamingQueryProgress:
    """The progress of one trigger.

    `is_rounded` says whether its JSON has rates with one decimal, `shows_duration` whether it has
    the duration of the batch. `phase_starts_ms`, which is not in the JSON, has for each phase how
    long after the start of the trigger it began.
    """

    id: str
    run_id: str
    name: str | None
    timestamp: str
    batch_id: int
    batch_duration_ms: int
    duration_ms: Mapping[str, int]
    event_time: Mapping[str, str]
    state_operators: Sequence[StateOperatorProgress]
    sources: Sequence[SourceProgress]
    sink: SinkProgress
    observed_metrics: Mapping[str, Mapping[str, Any]]
    is_rounded: bool = True
    shows_duration: bool = True
    phase_starts_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def ran_a_batch(self) -> bool:
        """Whether the trigger ran a batch, which is committed."""
        return "addBatch" in self.duration_ms

    @property
    def num_input_rows(self) -> int:
        return sum(source.num_input_rows for source in self.sources)

    @property
    def input_rows_per_second(self) -> float:
        return sum((source.input_rows_per_second for source in self.sources), 0.0)

    @property
    def processed_rows_per_second(self) -> float:
        return sum((source.processed_rows_per_second for source in self.sources), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The record with the fields, order and rounding of Spark's JSON.

        Fields that Spark omits are omitted.
        """
        return {
            "id": self.id,
            "runId": self.run_id,
            "name": self.name,
            "timestamp": self.timestamp,
            "batchId": self.batch_id,
            **({"batchDuration": self.batch_duration_ms} if self.shows_duration else {}),
            "numInputRows": self.num_input_rows,
            **_rate("inputRowsPerSecond", self.input_rows_per_second, self.is_rounded),
            **_rate("processedRowsPerSecond", self.processed_rows_per_second, self.is_rounded),
            **_filled("durationMs", self.duration_ms),
            **_filled("eventTime", self.event_time),
            "stateOperators": [operator.to_dict() for operator in self.state_operators],
            "sources": [source.to_dict(is_rounded=self.is_rounded) for source in self.sources],
            "sink": self.sink.to_dict(),
            **_filled(
                "observedMetrics", {name: dict(row) for name, row in self.observed_metrics.items()}
            ),
        }

    @property
    def json(self) -> str:
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def __str__(self) -> str:
        return json.dumps(self.to_dict(), indent=2)


def _rate(name: str, value: float, is_rounded: bool) -> dict[str, float]:
    """A field with a rate as in Spark's JSON; no field if it is not finite."""
    if not math.isfinite(value):
        return {}
    return {name: float(_one_decimal(repr(value))) if is_rounded else value}


def _metric(name: str, text: str) -> str:
    if name not in _FRACTIONAL_METRICS:
        return text
    try:
        return str(_one_decimal(text))
    except InvalidOperation:
        return text


def _one_decimal(number: str) -> Decimal:
    """Round to one decimal, half up, on the decimal digits, as Java's BigDecimal does."""
    return Decimal(number).quantize(Decimal("0.1"), ROUND_HALF_UP, _ALL_DIGITS)


def _filled(name: str, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A field with the mapping, sorted by key; no field if the mapping is empty."""
    return {name: dict(sorted(mapping.items()))} if mapping else {}
