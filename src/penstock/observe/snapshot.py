"""What is shown of a query, at one moment. Everything that shows queries draws it from here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from penstock.observe.histogram import HistogramSnapshot
from penstock.observe.watermark_report import WatermarkReport

Condition = Literal["starting", "running", "stopping", "restarting", "ended", "failed"]

PHASES = (
    "latestOffset",
    "getOffset",
    "walCommit",
    "getBatch",
    "queryPlanning",
    "addBatch",
    "commitOffsets",
)
"""The phases of a batch, in their order; `triggerExecution` is the whole."""


@dataclass(frozen=True)
class SourceSnapshot:
    """A source in the last record. Offsets are JSON texts; the lag is in the source's own unit."""

    description: str
    start_offset: str | None = None
    end_offset: str | None = None
    latest_offset: str | None = None
    input_rows: int = 0
    lag: int | float | None = None


@dataclass(frozen=True)
class BatchSnapshot:
    """A batch that was run. `output_rows` is None where the sink does not count."""

    batch_id: int
    timestamp: str
    duration_ms: int
    phases: Mapping[str, int]
    input_rows: int
    output_rows: int | None


@dataclass(frozen=True)
class Totals:
    """What has added up in this process over all runs of a query."""

    batches: int = 0
    input_rows: int = 0
    output_rows: int = 0
    late_rows: int = 0
    failures: int = 0
    batch_seconds: HistogramSnapshot = field(default_factory=HistogramSnapshot)
    phase_seconds: Mapping[str, HistogramSnapshot] = field(default_factory=dict)


@dataclass(frozen=True)
class QuerySnapshot:
    """A query at one moment. No text in it holds a secret.

    Times ending in `_at` are seconds since 1970. Rates are rows per second of the last record,
    None where there is none. State is None for a query that keeps none. `error` is what the query
    last died of, in this run or in an earlier one of this process. One that waits to be started
    again after a failure is `restarting`, with the figures of the run that failed. `trigger_age` is
    how many seconds the trigger that runs has been running, None between triggers.
    """

    id: str
    run_id: str
    name: str | None
    condition: Condition
    status: str
    started_at: float
    taken_at: float
    ended_at: float | None = None
    last_progress_at: float | None = None
    trigger_age: float | None = None
    batch_id: int | None = None
    batch_duration_ms: int | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    input_rows: int = 0
    output_rows: int | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    sources: tuple[SourceSnapshot, ...] = ()
    sink: str = ""
    watermark: WatermarkReport | None = None
    state_rows: int | None = None
    state_memory_bytes: int | None = None
    restarts: int = 0
    error: str | None = None
    checkpoint: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    batches: tuple[BatchSnapshot, ...] = ()

    @property
    def label(self) -> str:
        """The name, or as much of the id as tells it from others."""
        return self.name or self.id[:8]

    @property
    def is_over(self) -> bool:
        return self.condition in ("ended", "failed")

    @property
    def lag(self) -> int | float | None:
        """The lags of the sources that have one, added up."""
        lags = [source.lag for source in self.sources if source.lag is not None]
        return sum(lags) if lags else None

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from penstock.observe.watch_html import html_snapshot

        return html_snapshot(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the names in Spark's spelling (`inputRowsPerSecond`)."""
        document: dict[str, Any] = to_json(self)
        document["label"], document["lag"] = self.label, self.lag
        blocker = self.watermark.blocker if self.watermark else None
        document["watermarkBlocker"] = None if blocker is None else blocker.label
        return document


def to_json(value: Any) -> Any:
    """A snapshot, or any part of one, as what `json.dumps` takes."""
    if is_dataclass(value):
        return {_camel(f.name): to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(member) for key, member in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
