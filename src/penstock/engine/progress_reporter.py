"""Records the progress of each trigger and the status of the query."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.batch_context import BatchContext
from penstock.engine.clock import Clock
from penstock.engine.data_stream import DataStream
from penstock.engine.events import QueryIdleEvent, QueryProgressEvent
from penstock.engine.named_sinks import progress_metrics
from penstock.engine.progress import (
    NO_OUTPUT_ROWS,
    QUARANTINED_PARTS,
    ExecutionStats,
    SinkProgress,
    SourceProgress,
    StreamingQueryProgress,
)
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.stream_progress import StreamProgress

_logger = logging.getLogger(__name__)

_SLOW_REPORT_MS = 60_000


@dataclass(frozen=True)
class StreamingQueryStatus:
    """What a query is doing now."""

    message: str = "Initializing StreamExecution"
    is_data_available: bool = False
    is_trigger_active: bool = False


class ProgressReporter:
    """Updated on the query's thread; status and progress may be read from any thread."""

    def __init__(self, identity: QueryIdentity, session: StreamSession, clock: Clock) -> None:
        self._identity = identity
        self._session = session
        self._clock = clock
        self._status = StreamingQueryStatus()
        self._recent: deque[StreamingQueryProgress] = deque()
        self._recent_lock = threading.Lock()
        self._durations: dict[str, float] = {}
        self._phase_starts: dict[str, float] = {}
        self._trigger_start = -1
        self._trigger_start_elapsed = 0.0
        self._last_trigger_start = -1
        self._offsets: tuple[StreamProgress, StreamProgress, StreamProgress] | None = None
        self._last_stats: ExecutionStats | None = None
        self._last_idle_report: int | None = None
        self._observers: list[Callable[[StreamingQueryProgress], None]] = []

    # Reading, from any thread.

    def observe(self, observer: Callable[[StreamingQueryProgress], None]) -> None:
        """Call a function with every new record, on the query's thread.

        The function must return quickly. If it raises, the error is logged.
        """
        self._observers.append(observer)

    @property
    def trigger_age_ms(self) -> int | None:
        """The age of the running trigger; None between triggers."""
        if not self._status.is_trigger_active:
            return None
        return max(self._clock.time_millis() - self._trigger_start, 0)

    @property
    def trigger_started_ms(self) -> int:
        """When the running or the last trigger began, since the epoch; -1 before the first."""
        return self._trigger_start

    def time_ms(self) -> int:
        """The time on the clock of the query, in milliseconds since the epoch."""
        return self._clock.time_millis()

    @property
    def status(self) -> StreamingQueryStatus:
        return self._status

    @property
    def recent_progress(self) -> list[StreamingQueryProgress]:
        with self._recent_lock:
            return list(self._recent)

    @property
    def last_progress(self) -> StreamingQueryProgress | None:
        recent = self.recent_progress
        return recent[-1] if recent else None

    # Recording, on the query's thread.

    def update_status(
        self,
        message: str | None = None,
        *,
        is_data_available: bool | None = None,
        is_trigger_active: bool | None = None,
    ) -> None:
        """Change the given fields of the status."""
        old = self._status
        self._status = StreamingQueryStatus(
            old.message if message is None else message,
            old.is_data_available if is_data_available is None else is_data_available,
            old.is_trigger_active if is_trigger_active is None else is_trigger_active,
        )

    def start_trigger(self) -> None:
        """Start a new record."""
        _logger.debug("Starting Trigger Calculation")
        self._last_trigger_start = self._trigger_start
        self._trigger_start = self._clock.time_millis()
        self._trigger_start_elapsed = self._clock.elapsed_millis()
        self._offsets = None
        self._durations = {}
        self._phase_starts = {}
        self.update_status(is_trigger_active=True)

    @property
    def trigger_elapsed_ms(self) -> float:
        """The time since the last trigger started, exact and whether or not it is over."""
        return max(self._clock.elapsed_millis() - self._trigger_start_elapsed, 0.0)

    def report_time_taken(self, phase: str) -> _Phase:
        """Context manager: add the time the body takes to a phase of the current trigger."""
        return _Phase(self, phase)

    def _begin_phase(self, phase: str) -> float:
        start = self._clock.elapsed_millis()
        self._phase_starts.setdefault(phase, max(start - self._trigger_start_elapsed, 0.0))
        return start

    def _end_phase(self, phase: str, start: float) -> None:
        taken = max(self._clock.elapsed_millis() - start, 0.0)
        self._durations[phase] = self._durations.get(phase, 0.0) + taken
        _logger.debug("%s took %s ms", phase, round(taken))

    def record_trigger_offsets(
        self, start: StreamProgress, end: StreamProgress, latest: StreamProgress
    ) -> None:
        """Record the offset range of the trigger. Called before its batch runs."""
        self._offsets = (start, end, latest)

    def finish_trigger(
        self, plan: QueryPlan, context: BatchContext, *, has_new_data: bool
    ) -> StreamingQueryProgress:
        """Finish the record of a trigger with a batch, post it to the listeners and return it."""
        if context.execution is None:
            raise AssertionError("executed batch should provide the information for execution.")
        end = self._clock.time_millis()
        stats = context.execution.statistics(has_new_data=has_new_data)
        stats = replace(
            stats,
            output_rows=context.output_rows,
            event_time={**stats.event_time, **self._watermark(plan, context)},
        )
        progress = self._progress(plan, context, end, stats)
        self._last_stats = stats
        self._last_idle_report = self._clock.time_millis()
        self._add(progress)
        self._session.post_event(QueryProgressEvent(progress))
        self._trim()
        _logger.info("Streaming query made progress: %s", progress)
        self._warn_if_slow(end)
        self.update_status(is_trigger_active=False)
        return progress

    def finish_no_execution_trigger(self, plan: QueryPlan, context: BatchContext) -> None:
        """Finish the record of a trigger without a batch.

        It is kept, and an idle event is posted, only once per `noDataProgressEventInterval`.
        """
        end = self._clock.time_millis()
        interval = self._session.settings.no_data_progress_interval_ms
        if self._last_idle_report is None or end - interval >= self._last_idle_report:
            stats = self._stats_without_execution(plan, context)
            self._add(self._progress(plan, context, end, stats))
            if self._last_idle_report is not None:
                self._post_idle(interval)
            self._last_idle_report = end
        self._warn_if_slow(end)
        self.update_status(is_trigger_active=False)

    # Building a record.

    def _post_idle(self, interval: int) -> None:
        self._session.post_event(
            QueryIdleEvent(
                self._identity.id, self._identity.run_id, format_timestamp(self._trigger_start)
            )
        )
        self._trim()
        _logger.info(
            "Streaming query has been idle and waiting for new data more than %s ms.", interval
        )

    def _add(self, progress: StreamingQueryProgress) -> None:
        with self._recent_lock:
            self._recent.append(progress)
        self._trim()
        for observer in self._observers:
            try:
                observer(progress)
            except Exception:
                _logger.warning("An observer of progress failed: %r", observer, exc_info=True)

    def _trim(self) -> None:
        """Drop the oldest records. As in Spark, one less is kept than the setting says."""
        retention = self._session.progress_retention
        with self._recent_lock:
            while self._recent and len(self._recent) >= retention:
                self._recent.popleft()

    def _stats_without_execution(self, plan: QueryPlan, context: BatchContext) -> ExecutionStats:
        if self._last_stats is None:
            early = self._session.reports_first_watermark
            return ExecutionStats(event_time=self._watermark(plan, context) if early else {})
        last = self._last_stats
        return ExecutionStats(
            state_operators=[operator.without_execution() for operator in last.state_operators],
            event_time=self._watermark(plan, context),
            output_rows=None if last.output_rows is None else 0,
        )

    def _watermark(self, plan: QueryPlan, context: BatchContext) -> dict[str, str]:
        if not plan.watermark_operators:
            return {}
        return {"watermark": self._session.event_time_text(context.metadata.batch_watermark_ms)}

    def _progress(
        self,
        plan: QueryPlan,
        context: BatchContext,
        end_ms: int,
        stats: ExecutionStats,
    ) -> StreamingQueryProgress:
        duration = end_ms - self._trigger_start
        output_rows = NO_OUTPUT_ROWS if stats.output_rows is None else stats.output_rows
        sinks = context.sink_outcomes
        metrics = {**plan.sink_metrics(), **progress_metrics(sinks)}
        return StreamingQueryProgress(
            id=self._identity.id,
            run_id=self._identity.run_id,
            name=self._identity.name,
            timestamp=format_timestamp(self._trigger_start),
            batch_id=context.batch_id,
            batch_duration_ms=duration,
            duration_ms={phase: round(taken) for phase, taken in self._durations.items()},
            event_time=stats.event_time,
            state_operators=stats.state_operators,
            sources=self._source_progress(plan.sources, stats.input_rows, duration, context),
            sink=SinkProgress(plan.sink_description, output_rows, metrics, sinks),
            observed_metrics=stats.observed_metrics,
            is_rounded=self._session.rounds_rates,
            shows_duration=self._session.shows_batch_duration,
            phase_starts_ms=self._phase_starts,
        )

    def _source_progress(
        self,
        sources: Sequence[DataStream],
        input_rows: Mapping[DataStream, int],
        duration: int,
        context: BatchContext,
    ) -> list[SourceProgress]:
        if self._offsets is None:
            raise AssertionError("the offsets of a trigger are recorded before it is finished")
        start, end, latest = self._offsets
        processing_seconds = max(1, duration) / 1000
        input_seconds = (
            (self._trigger_start - self._last_trigger_start) / 1000
            if self._last_trigger_start >= 0
            else float("inf")
        )
        return [
            SourceProgress(
                description=str(source),
                start_offset=_json_of(start, source),
                end_offset=_json_of(end, source),
                latest_offset=_json_of(latest, source),
                num_input_rows=(rows := input_rows.get(source, 0)),
                input_rows_per_second=_rate(rows, input_seconds),
                processed_rows_per_second=_rate(rows, processing_seconds),
                metrics={
                    **source.metrics(end.get(source)),
                    **({} if (pace := context.pace.get(source)) is None else pace.metrics()),
                    **_quarantined(context.left_out.get(source)),
                },
                pace=pace,
            )
            for source in dict.fromkeys(sources)
        ]

    def _warn_if_slow(self, trigger_end: int) -> None:
        taken = self._clock.time_millis() - trigger_end
        processing = trigger_end - self._trigger_start
        if taken > max(_SLOW_REPORT_MS, processing):
            _logger.warning(
                "Query progress update takes longer than batch processing time. Progress update "
                "takes %s milliseconds. Batch processing takes %s milliseconds",
                taken,
                processing,
            )


class _Phase:
    """A phase of a trigger, as a context manager. If its body raises, it is not recorded."""

    __slots__ = ("_phase", "_reporter", "_start")

    def __init__(self, reporter: ProgressReporter, phase: str) -> None:
        self._reporter = reporter
        self._phase = phase

    def __enter__(self) -> None:
        self._start = self._reporter._begin_phase(self._phase)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._reporter._end_phase(self._phase, self._start)


def _json_of(progress: StreamProgress, source: DataStream) -> str | None:
    offset = progress.get(source)
    return None if offset is None else offset.json


def _quarantined(parts: int | None) -> Mapping[str, str]:
    return {} if parts is None else {QUARANTINED_PARTS: str(parts)}


def _rate(rows: int, seconds: float) -> float:
    """Rows per second, divided as on the JVM: n/0 is infinity, 0/0 is NaN."""
    if seconds == 0:
        return float("inf") if rows else float("nan")
    return rows / seconds
