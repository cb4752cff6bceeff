"""OpenTelemetry spans of the batches of a query, made from its progress records.

    batch            from the trigger to the commit; linked to the batch before
      addBatch, ...  each phase
        sink lake    each of many sinks, in addBatch

The spans are made when a batch has ended, with the times it had. This module imports the package
`opentelemetry` and is imported only if tracing is used.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from penstock.checkpoint.timestamps import parse_timestamp
from penstock.engine.error_text import error_text
from penstock.engine.named_sinks import SinkStatus
from penstock.engine.progress import NO_OUTPUT_ROWS, StreamingQueryProgress
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution

_NANOS = 1_000_000
_WHOLE = "triggerExecution"
_WRITING = "addBatch"
_QUERIES_KEPT = 1000
"""Of how many queries the last span is kept, for the link from the next one."""

Attributes = Mapping[str, str | int]


class BatchSpans(RunObserver):
    """Makes a span for each batch of every run that it observes, and for each failure."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._lock = threading.Lock()
        self._last: dict[str, SpanContext] = {}

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        if not progress.ran_a_batch:
            return
        began = parse_timestamp(progress.timestamp) * _NANOS
        ended = began + progress.batch_duration_ms * _NANOS
        span = self._start_batch(run, began, _attributes(run, progress))
        for phase, millis in progress.duration_ms.items():
            if phase == _WHOLE:
                continue
            start = began + round(progress.phase_starts_ms.get(phase, 0) * _NANOS)
            child = self._start_child(span, phase, start)
            if phase == _WRITING:
                self._sinks(child, progress)
            child.end(start + millis * _NANOS)
        span.end(ended)

    def on_ended(self, run: StreamExecution) -> None:
        """A run that failed has no progress record of its last batch: a span with the error."""
        failure = run.failure
        if failure is not None:
            began = max(run.reporter.trigger_started_ms, 0) or run.reporter.time_ms()
            attributes = _identity(run)
            if failure.batch_id is not None:
                attributes["penstock.batch.id"] = failure.batch_id
            span = self._start_batch(run, began * _NANOS, attributes)
            cause = failure.__cause__ or failure
            span.add_event(
                "exception",
                {
                    "exception.type": type(cause).__name__,
                    "exception.message": run.redactor.text(error_text(cause)),
                },
                run.reporter.time_ms() * _NANOS,
            )
            span.set_status(Status(StatusCode.ERROR, run.redactor.text(error_text(cause))))
            span.end(run.reporter.time_ms() * _NANOS)

    def _start_batch(self, run: StreamExecution, began: int, attributes: Attributes) -> Span:
        """A span without a parent, linked to the one of the batch before, of this or another run.

        The spans of one query are not one trace: a query runs for months. The link is missing if
        `_QUERIES_KEPT` other queries have had a batch since then.
        """
        with self._lock:
            before = self._last.pop(run.identity.id, None)
            span = self._tracer.start_span(
                "batch",
                Context(),
                SpanKind.CONSUMER,
                attributes,
                [Link(before, {"penstock.link": "previous batch"})] if before else (),
                began,
            )
            self._last[run.identity.id] = span.get_span_context()
            if len(self._last) > _QUERIES_KEPT:
                del self._last[next(iter(self._last))]
        return span

    def _start_child(
        self, parent: Span, name: str, began: int, attributes: Attributes | None = None
    ) -> Span:
        return self._tracer.start_span(
            name, set_span_in_context(parent, Context()), attributes=attributes, start_time=began
        )

    def _sinks(self, parent: Span, progress: StreamingQueryProgress) -> None:
        for outcome in progress.sink.outcomes:
            if outcome.status is SinkStatus.WRITTEN:
                began = outcome.started_ms * _NANOS
                attributes: Attributes = {
                    "penstock.sink.name": outcome.name,
                    "penstock.sink.attempts": outcome.attempts,
                }
                child = self._start_child(parent, f"sink {outcome.name}", began, attributes)
                child.end(began + outcome.duration_ms * _NANOS)


def _identity(run: StreamExecution) -> dict[str, str | int]:
    identity = run.identity
    named: dict[str, str | int] = (
        {} if identity.name is None else {"penstock.query.name": identity.name}
    )
    return {"penstock.query.id": identity.id, "penstock.query.run_id": identity.run_id, **named}


def _attributes(run: StreamExecution, progress: StreamingQueryProgress) -> Attributes:
    """The attributes of a batch, with secrets redacted from all texts."""
    text = run.redactor.text
    attributes = _identity(run)
    attributes["penstock.batch.id"] = progress.batch_id
    attributes["penstock.batch.input_rows"] = progress.num_input_rows
    if progress.sink.num_output_rows != NO_OUTPUT_ROWS:
        attributes["penstock.batch.output_rows"] = progress.sink.num_output_rows
    attributes["penstock.sink.description"] = text(progress.sink.description)
    for number, source in enumerate(progress.sources):
        prefix = f"penstock.source.{number}"
        attributes[f"{prefix}.description"] = text(source.description)
        attributes[f"{prefix}.input_rows"] = source.num_input_rows
        for name, offset in (("start", source.start_offset), ("end", source.end_offset)):
            if offset is not None:
                attributes[f"{prefix}.{name}_offset"] = text(offset)
    return attributes
