"""The engine's events as Spark's own, so that every listener and the web UI see them."""

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
from penstock.engine.progress import StreamingQueryProgress
from penstock.spark.gateway import Jvm
from penstock.spark.handles import Handles

_CONF = "org.apache.spark.sql.internal.SQLConf"
_EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$Event"


def to_jvm_event(jvm: Jvm, event: QueryEvent) -> Any:
    """The listener event of Spark that says what `event` says."""
    match event:
        case QueryStartedEvent(id, run_id, name, timestamp):
            # Without job tags: PySpark 4.1 to 4.3 cannot read an event that has any.
            make = jvm.cls("QueryStartedEvent")
            return make(jvm.uuid(id), jvm.uuid(run_id), name, timestamp)
        case QueryProgressEvent(progress):
            return jvm.cls("QueryProgressEvent")(_to_jvm_progress(jvm, progress))
        case QueryIdleEvent(id, run_id, timestamp):
            return jvm.cls("QueryIdleEvent")(jvm.uuid(id), jvm.uuid(run_id), timestamp)
        case QueryTerminatedEvent(id, run_id, exception, error_class):
            make = jvm.cls("QueryTerminatedEvent")
            options = jvm.option(exception), jvm.option(error_class)
            return make(jvm.uuid(id), jvm.uuid(run_id), *options)
        case _:
            raise AssertionError(f"no event of Spark's for {event}")


class ProgressPoster:
    """Posts records of triggers to Spark's listeners, in one round trip where that can be."""

    def __init__(self, jvm: Jvm, listeners: Any, conf: Any) -> None:
        """`listeners` is Spark's manager of streaming queries, `conf` the SQLConf of a session."""
        ask = Handles.of(jvm)
        post = ask.chain(
            ask.method_of(jvm.module("QueryProgress"), "fromJson", "java.lang.String"),
            ask.construct("QueryProgressEvent", "QueryProgress"),
            ask.method_of(listeners, "postListenerEvent", _EVENT),
        )
        retention = ask.chain(ask.always(conf), ask.call(_CONF, "streamingProgressRetention"))
        self._post = ask.function(ask.after(post, retention))

    def post(self, progress: StreamingQueryProgress) -> int | None:
        """Post a record; how many the session wants to be kept.

        None if the record holds rows, which have no form as text: it was not posted.
        """
        if progress.observed_metrics:
            return None
        return int(self._post.apply(_json(progress)))


def _to_jvm_progress(jvm: Jvm, progress: StreamingQueryProgress) -> Any:
    """Spark's progress record, read from JSON in the form its own reader takes."""
    read = jvm.module("QueryProgress").fromJson(_json(progress))
    return _with_observed_metrics(jvm, read, progress) if progress.observed_metrics else read


def _json(progress: StreamingQueryProgress) -> str:
    """A record as Spark's reader takes it, without its observed metrics.

    Nothing is rounded: the JVM's record holds the numbers themselves, and rounds in its own JSON.
    """
    fields = progress.to_dict()
    for shown, source in zip(fields["sources"], progress.sources, strict=True):
        shown["startOffset"] = source.start_offset
        shown["endOffset"] = source.end_offset
        shown["latestOffset"] = source.latest_offset
        shown["inputRowsPerSecond"] = _double(source.input_rows_per_second)
        shown["processedRowsPerSecond"] = _double(source.processed_rows_per_second)
        shown["metrics"] = dict(source.metrics)
    fields["sink"].setdefault("metrics", {})
    for operator in fields["stateOperators"]:
        operator.setdefault("customMetrics", {})
    fields.setdefault("durationMs", {})
    fields.setdefault("eventTime", {})
    fields["observedMetrics"] = {}
    return json.dumps(fields)


def _double(value: float) -> float | str:
    """A number as Jackson reads a double: what is not finite is a text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity"


def _with_observed_metrics(jvm: Jvm, read: Any, progress: StreamingQueryProgress) -> Any:
    """The same record with its observed metrics, which are rows and not JSON."""
    rows = jvm.cls("java.util.HashMap")()
    for name, row in progress.observed_metrics.items():
        rows.put(name, row.jvm_row if isinstance(row, ObservedRow) else None)
    return jvm.cls("QueryProgress")(
        read.id(),
        read.runId(),
        read.name(),
        read.timestamp(),
        read.batchId(),
        read.batchDuration(),
        read.durationMs(),
        read.eventTime(),
        read.stateOperators(),
        read.sources(),
        read.sink(),
        rows,
    )


class ObservedRow(dict[str, Any]):
    """An observed metric as a mapping, which remembers the JVM's row that it came from."""

    def __init__(self, values: dict[str, Any], jvm_row: Any) -> None:
        super().__init__(values)
        self.jvm_row = jvm_row
