"""Converts the engine's events to Spark's listener events and posts them."""

from __future__ import annotations

import json
import math
from typing import Any

from penstock.engine.events import (
    QueryEvent,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from penstock.engine.progress import SourceProgress, StreamingQueryProgress
from penstock.spark.jvm.calls import send
from penstock.spark.jvm.gateway import Jvm


def to_jvm_event(jvm: Jvm, event: QueryEvent) -> Any:
    """Convert an event of the engine to Spark's listener event."""
    match event:
        case QueryStartedEvent(id, run_id, name, timestamp):
            # Without job tags: PySpark 4.1 to 4.3 cannot read an event that has any.
            ids = {"id": jvm.uuid(id), "runId": jvm.uuid(run_id)}
            return jvm.new("QueryStartedEvent", **ids, name=name, timestamp=timestamp)
        case QueryProgressEvent(progress):
            return jvm.new("QueryProgressEvent", progress=_to_jvm_progress(jvm, progress))
        case QueryIdleEvent(id, run_id, timestamp):
            ids = {"id": jvm.uuid(id), "runId": jvm.uuid(run_id)}
            return jvm.new("QueryIdleEvent", **ids, timestamp=timestamp)
        case QueryTerminatedEvent(id, run_id, exception, error_class):
            return jvm.new(
                "QueryTerminatedEvent",
                id=jvm.uuid(id),
                runId=jvm.uuid(run_id),
                exception=jvm.option(exception),
                errorClassOnException=jvm.option(error_class),
            )
        case _:
            raise AssertionError(f"Spark has no listener event for {event}")


def post_progress(
    jvm: Jvm, listeners: Any, jsession: Any, progress: StreamingQueryProgress
) -> int | None:
    """Post the progress record of a trigger to Spark's listeners in one round trip.

    `listeners` is Spark's StreamingQueryManager, `jsession` the user's session. Returns the number
    of records that this session's settings retain now. Returns None without posting if the record
    has observed metrics, which are rows and not JSON.
    """
    if progress.observed_metrics:
        return None
    record = _json(progress)
    return int(send(jvm.java.start, "postProgress", listeners, jsession, record))


def _to_jvm_progress(jvm: Jvm, progress: StreamingQueryProgress) -> Any:
    """Spark's progress record, parsed from JSON in the JVM."""
    read = jvm.java.start.progress(_json(progress))
    return _with_observed_metrics(jvm, read, progress) if progress.observed_metrics else read


def _json(progress: StreamingQueryProgress) -> str:
    """A record as JSON for Spark's parser, without its observed metrics.

    Nothing is rounded: the JVM's record has the exact numbers, and rounds in its own JSON. Offsets
    are texts in it, which may be long, and are not parsed.
    """
    record = {
        "id": progress.id,
        "runId": progress.run_id,
        "name": progress.name,
        "timestamp": progress.timestamp,
        "batchId": progress.batch_id,
        "batchDuration": progress.batch_duration_ms,
        "durationMs": dict(progress.duration_ms),
        "eventTime": dict(progress.event_time),
        "stateOperators": [
            {"customMetrics": {}, **operator.to_dict()} for operator in progress.state_operators
        ],
        "sources": [_source_fields(source) for source in progress.sources],
        "sink": {"metrics": {}, **progress.sink.to_dict()},
        "observedMetrics": {},
    }
    return json.dumps(record)


def _source_fields(source: SourceProgress) -> dict[str, Any]:
    return {
        "description": source.description,
        "startOffset": source.start_offset,
        "endOffset": source.end_offset,
        "latestOffset": source.latest_offset,
        "numInputRows": source.num_input_rows,
        "inputRowsPerSecond": _double(source.input_rows_per_second),
        "processedRowsPerSecond": _double(source.processed_rows_per_second),
        "metrics": dict(source.metrics),
    }


def _double(value: float) -> float | str:
    """A number as Jackson reads a double: NaN and infinity are strings."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity"


def _with_observed_metrics(jvm: Jvm, read: Any, progress: StreamingQueryProgress) -> Any:
    """The same record with its observed metrics, which are rows and not JSON."""
    rows = jvm.cls("java.util.HashMap")()
    for name, row in progress.observed_metrics.items():
        rows.put(name, row.jvm_row if isinstance(row, ObservedRow) else None)
    return jvm.new(
        "QueryProgress",
        id=read.id(),
        runId=read.runId(),
        name=read.name(),
        timestamp=read.timestamp(),
        batchId=read.batchId(),
        batchDuration=read.batchDuration(),
        durationMs=read.durationMs(),
        eventTime=read.eventTime(),
        stateOperators=read.stateOperators(),
        sources=read.sources(),
        sink=read.sink(),
        observedMetrics=rows,
    )


class ObservedRow(dict[str, Any]):
    """An observed metric as a mapping, with the JVM row it was read from."""

    def __init__(self, values: dict[str, Any], jvm_row: Any) -> None:
        super().__init__(values)
        self.jvm_row = jvm_row
