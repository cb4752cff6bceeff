"""The immutable snapshot of a query, from which all views and metrics are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from penstock.engine.source_pace import SourcePace
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
"""The phases of a batch in order; `triggerExecution`, their total, is not among them."""


@dataclass(frozen=True)
class SourceSnapshot:
    """A source in the last progress record.

    Offsets are JSON texts. `lag` is in the source's own unit, None if it is unknown.

    `lag_seconds` is the time between the last moment at which the source is known to have had
    nothing beyond `end_offset`, and the start of the trigger; 0 if it had nothing beyond it then.
    None if that moment was before this run. `catch_up_seconds` is the time that the lag takes at
    the processing rate of the batch, without new input; for Kafka sources only. `pace` is the limit
    that `pace()` has set for the batch, and why; None without it.
    """

    description: str
    start_offset: str | None = None
    end_offset: str | None = None
    latest_offset: str | None = None
    input_rows: int = 0
    lag: int | float | None = None
    lag_seconds: float | None = None
    catch_up_seconds: float | None = None
    pace: SourcePace | None = None


@dataclass(frozen=True)
class SinkSnapshot:
    """One of many sinks: its last batch, and totals over all runs of the query in this process.

    `status` is `written`, `done before` (in an earlier run) or `not due` (the sink is newer than
    the plan of the batch). `retries` are the calls after a failed one, `failures` the batches that
    failed because of this sink, `seconds` the durations of its writes.
    """

    name: str
    description: str = ""
    status: str = ""
    duration_ms: int = 0
    attempts: int = 0
    batches: int = 0
    retries: int = 0
    failures: int = 0
    seconds: HistogramSnapshot = field(default_factory=HistogramSnapshot)


@dataclass(frozen=True)
class BatchSnapshot:
    """A batch that has run. `output_rows` is None if the sink does not count rows."""

    batch_id: int
    timestamp: str
    duration_ms: int
    phases: Mapping[str, int]
    input_rows: int
    output_rows: int | None


@dataclass(frozen=True)
class Totals:
    """Totals over all runs of a query in this process. `late_rows` were dropped by watermark.

    `quarantined_parts` are the files, records or other parts that batches have left out.
    """

    batches: int = 0
    input_rows: int = 0
    output_rows: int = 0
    late_rows: int = 0
    failures: int = 0
    batch_seconds: HistogramSnapshot = field(default_factory=HistogramSnapshot)
    phase_seconds: Mapping[str, HistogramSnapshot] = field(default_factory=dict)
    quarantined_parts: int = 0


@dataclass(frozen=True)
class QuerySnapshot:
    """The state of a query at one moment, with secrets redacted from all texts.

    Returned by `penstock.snapshots()`. Fields that end in `_at` are seconds since the epoch. Rates
    are rows per second of the last progress record, None if there is none. `state_rows` and
    `state_memory_bytes` are None for a stateless query. `error` is the last failure of the query
    in this process. `condition` is `restarting` while a restart is pending; the other fields are
    then those of the run that failed. `trigger_age` is the number of seconds since the active
    trigger began, None between triggers. `sinks` is empty unless the query has many.
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
    sinks: tuple[SinkSnapshot, ...] = ()

    @property
    def label(self) -> str:
        """The name of the query or, without one, the first eight characters of its id."""
        return self.name or self.id[:8]

    @property
    def is_over(self) -> bool:
        """Whether the query has terminated."""
        return self.condition in ("ended", "failed")

    @property
    def lag(self) -> int | float | None:
        """The sum of the lags of the sources; None if no source has one."""
        lags = [source.lag for source in self.sources if source.lag is not None]
        return sum(lags) if lags else None

    @property
    def lag_seconds(self) -> float | None:
        """The largest lag in time of a source; None if no source has one."""
        lags = (source.lag_seconds for source in self.sources)
        return max((lag for lag in lags if lag is not None), default=None)

    def _repr_html_(self) -> str:
        """The HTML that a notebook displays."""
        from penstock.observe.watch_html import html_snapshot

        return html_snapshot(self)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible dict with keys in camel case, as in Spark (`inputRowsPerSecond`)."""
        document: dict[str, Any] = to_json(self)
        document["label"], document["lag"] = self.label, self.lag
        document["lagSeconds"] = self.lag_seconds
        blocker = self.watermark.blocker if self.watermark else None
        document["watermarkBlocker"] = None if blocker is None else blocker.label
        return document


def to_json(value: Any) -> Any:
    """Convert a snapshot, or any part of one, to a value that `json.dumps` accepts."""
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
