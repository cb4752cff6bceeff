"""The registry of the active and recently terminated queries of this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.checkpoint.timestamps import parse_timestamp
from penstock.engine.error_text import one_line
from penstock.engine.progress import (
    NO_OUTPUT_ROWS,
    QUARANTINED_PARTS,
    SourceProgress,
    StreamingQueryProgress,
)
from penstock.engine.run_observer import RunObserver
from penstock.engine.run_state import State
from penstock.engine.stream_execution import StreamExecution
from penstock.observe.histogram import Histogram
from penstock.observe.lag import SeenOffsets, catch_up_seconds, lag_between
from penstock.observe.sink_sums import SinkSums
from penstock.observe.snapshot import (
    BatchSnapshot,
    Condition,
    QuerySnapshot,
    SourceSnapshot,
    Totals,
)
from penstock.observe.watermark_report import WatermarkReport, report_watermark

RESTARTS_VARIABLE = "PENSTOCK_RESTARTS"
"""The environment variable with the number of restarts of this process, set by a supervisor."""

_ENDED_KEPT = 50
_LONGEST_TEXT = 2000
_WHOLE = "triggerExecution"


class Observatory(RunObserver):
    """Holds every active query and the last ones that have terminated.

    There is one entry per query id: a query that is started again replaces its old entry and
    continues its totals; only a start after a failure counts as a restart. Every method may be
    called from any thread.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def on_starting(self, run: StreamExecution) -> None:
        """Add a run that is about to start. Secrets are redacted from its texts."""
        with self._lock:
            before = self._entries.pop(run.identity.id, None)
            self._entries[run.identity.id] = _Entry(run, self._now, before)

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        with self._lock:
            entry = self._entries.get(run.identity.id)
        if entry is not None and entry.is_of(run):
            entry.take(progress)

    def on_ended(self, run: StreamExecution) -> None:
        """Keep the final snapshot of the run and release the run itself."""
        with self._lock:
            entry = self._entries.get(run.identity.id)
            try:
                if entry is not None and entry.is_of(run):
                    entry.close()
            except Exception:
                del self._entries[run.identity.id]
                raise
            finally:
                over = [key for key, kept in self._entries.items() if kept.is_closed]
                for key in over[:-_ENDED_KEPT]:
                    del self._entries[key]

    def on_awaiting_restart(self, run: StreamExecution, message: str | None) -> None:
        with self._lock:
            entry = self._entries.get(run.identity.id)
            if entry is not None:
                entry.set_restarting(message)

    def snapshots(self) -> list[QuerySnapshot]:
        """The snapshots of all queries, in the order in which they were started."""
        with self._lock:
            entries = list(self._entries.values())
        return [entry.snapshot() for entry in entries]

    def snapshot(self, query_id: str) -> QuerySnapshot | None:
        """The snapshot of one query by its id; None if there is no entry of it."""
        with self._lock:
            entry = self._entries.get(query_id)
        return None if entry is None else entry.snapshot()


class _Entry:
    """One query: its current run, and the totals over its runs in this process."""

    def __init__(
        self,
        execution: StreamExecution,
        now: Callable[[], float],
        before: _Entry | None,
    ) -> None:
        self._execution: StreamExecution | None = execution
        self._redactor = execution.redactor
        self._options = execution.redactor.options(execution.options)
        self._now = now
        self._started_at = now()
        self._last_progress_at: float | None = None
        self._restarts: int = before.restarts_of_next if before else _restarts_of_process()
        self._sums: _Sums = before._sums if before else _Sums()
        self._error: str | None = before._error if before else None
        self._seen: dict[int, SeenOffsets] = {}
        self._ages_ms: tuple[int | None, ...] = ()
        self._final: QuerySnapshot | None = None
        self._restarting: str | None = None

    @property
    def is_closed(self) -> bool:
        return self._final is not None and self._restarting is None

    @property
    def restarts_of_next(self) -> int:
        """The number of restarts of the next run: one more if this one has failed."""
        has_failed = self._final is not None and self._final.condition == "failed"
        return self._restarts + (has_failed or self._restarting is not None)

    def is_of(self, execution: StreamExecution) -> bool:
        return self._execution is execution

    def take(self, progress: StreamingQueryProgress) -> None:
        """Add a progress record. Called on the query's thread."""
        self._last_progress_at = self._now()
        if progress.ran_a_batch:
            self._sums.add(progress)
        at_ms = parse_timestamp(progress.timestamp)
        self._ages_ms = tuple(
            self._seen.setdefault(number, SeenOffsets()).age_ms(
                at_ms, source.end_offset, source.latest_offset
            )
            for number, source in enumerate(progress.sources)
        )

    def close(self) -> None:
        """Take the final snapshot of the run, which has ended, and release it."""
        execution = self._execution
        assert execution is not None
        if execution.failure is not None:
            self._sums.failures += 1
            self._error = self._shown(one_line(execution.failure.parameters["message"]))
            self._sums.sinks.add_failure(execution.failure.__cause__)
        self._final = self._make(execution, ended_at=self._now())
        self._execution = None

    def set_restarting(self, status: str | None) -> None:
        """Set the message of a pending restart; None if none is pending."""
        self._restarting = None if status is None else self._shown(status)

    def snapshot(self) -> QuerySnapshot:
        execution, restarting = self._execution, self._restarting
        if execution is None:
            assert self._final is not None
            if restarting is None:
                return self._final
            return replace(
                self._final,
                condition="restarting",
                status=restarting,
                taken_at=self._now(),
                ended_at=None,
            )
        return self._make(execution, ended_at=None)

    def _make(self, execution: StreamExecution, ended_at: float | None) -> QuerySnapshot:
        text = self._shown
        reporter = execution.reporter
        records = reporter.recent_progress
        batches = tuple(_batch(record) for record in records if record.ran_a_batch)
        last = records[-1] if records else None
        age = reporter.trigger_age_ms
        return QuerySnapshot(
            id=execution.identity.id,
            run_id=execution.identity.run_id,
            name=execution.identity.name,
            condition=_condition(execution, is_over=ended_at is not None),
            status=text(reporter.status.message),
            started_at=self._started_at,
            taken_at=self._now(),
            ended_at=ended_at,
            last_progress_at=self._last_progress_at,
            trigger_age=None if age is None else age / 1000,
            batch_id=batches[-1].batch_id if batches else None,
            batch_duration_ms=batches[-1].duration_ms if batches else None,
            phases=batches[-1].phases if batches else {},
            input_rows=last.num_input_rows if last else 0,
            output_rows=_output_rows(last),
            input_rows_per_second=_rate([s.input_rows_per_second for s in _sources(last)]),
            processed_rows_per_second=_rate([s.processed_rows_per_second for s in _sources(last)]),
            sources=self._source_snapshots(last),
            sink=text(last.sink.description) if last else "",
            watermark=_watermark(execution, text),
            state_rows=_state(last, "numRowsTotal"),
            state_memory_bytes=_state(last, "memoryUsedBytes"),
            restarts=self._restarts,
            error=self._error,
            checkpoint=text(execution.checkpoint.root),
            options=self._options,
            totals=self._sums.snapshot(),
            batches=batches,
            sinks=self._sums.sinks.snapshot(text),
        )

    def _shown(self, text: str) -> str:
        """A text with secrets redacted, cut to a maximum length."""
        shown = self._redactor.text(text)
        return shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]} ..."

    def _source_snapshots(self, last: StreamingQueryProgress | None) -> tuple[SourceSnapshot, ...]:
        text = self._shown
        sources = _sources(last)
        ages_ms = self._ages_ms if len(self._ages_ms) == len(sources) else [None] * len(sources)
        found = []
        for source, age_ms in zip(sources, ages_ms, strict=True):
            end, latest = source.end_offset, source.latest_offset
            lag = lag_between(end, latest)
            found.append(
                SourceSnapshot(
                    description=text(source.description),
                    start_offset=source.start_offset and text(source.start_offset),
                    end_offset=end and text(end),
                    latest_offset=latest and text(latest),
                    input_rows=source.num_input_rows,
                    lag=lag,
                    lag_seconds=None if age_ms is None else age_ms / 1000,
                    catch_up_seconds=catch_up_seconds(end, lag, source.processed_rows_per_second),
                    pace=source.pace,
                )
            )
        return tuple(found)


class _Sums:
    """The totals over the batches of a query. Written by its thread, read by others."""

    def __init__(self) -> None:
        self.failures = 0
        self.sinks = SinkSums()
        self._lock = threading.Lock()
        self._batches = self._input_rows = self._output_rows = self._late_rows = 0
        self._quarantined_parts = 0
        self._batch_seconds = Histogram()
        self._phase_seconds: dict[str, Histogram] = {}

    def add(self, progress: StreamingQueryProgress) -> None:
        self.sinks.add(progress.sink.outcomes)
        with self._lock:
            self._batches += 1
            self._input_rows += progress.num_input_rows
            self._output_rows += max(progress.sink.num_output_rows, 0)
            self._late_rows += _state(progress, "numRowsDroppedByWatermark") or 0
            self._quarantined_parts += sum(
                int(source.metrics.get(QUARANTINED_PARTS, 0)) for source in progress.sources
            )
            self._batch_seconds.observe(progress.batch_duration_ms / 1000)
            for phase, millis in progress.duration_ms.items():
                if phase != _WHOLE:
                    self._phase_seconds.setdefault(phase, Histogram()).observe(millis / 1000)

    def snapshot(self) -> Totals:
        with self._lock:
            return Totals(
                batches=self._batches,
                input_rows=self._input_rows,
                output_rows=self._output_rows,
                late_rows=self._late_rows,
                quarantined_parts=self._quarantined_parts,
                failures=self.failures,
                batch_seconds=self._batch_seconds.snapshot(),
                phase_seconds={p: h.snapshot() for p, h in self._phase_seconds.items()},
            )


def _restarts_of_process() -> int:
    text = os.environ.get(RESTARTS_VARIABLE, "0")
    return int(text) if text.isdecimal() else 0


def _condition(execution: StreamExecution, *, is_over: bool) -> Condition:
    if is_over:
        return "ended" if execution.failure is None else "failed"
    if execution.life.is_stopping or not execution.is_active:
        return "stopping"
    return "starting" if execution.state is State.INITIALIZING else "running"


def _batch(progress: StreamingQueryProgress) -> BatchSnapshot:
    phases = {p: ms for p, ms in progress.duration_ms.items() if p != _WHOLE}
    return BatchSnapshot(
        batch_id=progress.batch_id,
        timestamp=progress.timestamp,
        duration_ms=progress.batch_duration_ms,
        phases=phases,
        input_rows=progress.num_input_rows,
        output_rows=_output_rows(progress),
    )


def _output_rows(progress: StreamingQueryProgress | None) -> int | None:
    rows = NO_OUTPUT_ROWS if progress is None else progress.sink.num_output_rows
    return None if rows == NO_OUTPUT_ROWS else rows


def _sources(progress: StreamingQueryProgress | None) -> Sequence[SourceProgress]:
    return progress.sources if progress else ()


def _rate(rates: list[float]) -> float | None:
    """The sum of the rates of all sources; None if there are none or it is not finite."""
    total = sum(rates)
    return total if rates and total - total == 0 else None


def _state(progress: StreamingQueryProgress | None, figure: str) -> int | None:
    """The sum of a metric over all stateful operators; None if there are none."""
    if progress is None or not progress.state_operators:
        return None
    return sum(int(operator.fields.get(figure, 0)) for operator in progress.state_operators)


def _watermark(execution: StreamExecution, text: Callable[[str], str]) -> WatermarkReport | None:
    report = report_watermark(execution.runtime)
    return report.redacted(text) if report.inputs else None


OBSERVATORY = Observatory()
"""The observatory of this process; every query is registered here."""


def snapshots() -> list[QuerySnapshot]:
    """Return snapshots of the queries that Penstock runs in this process.

    Includes the last 50 queries that have terminated, in the order in which they were started.
    Calls neither Spark nor the threads of the queries, so it is cheap and does not block.
    """
    return OBSERVATORY.snapshots()
