"""The events that listeners receive."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.progress import StreamingQueryProgress


@dataclass(frozen=True)
class QueryEvent:
    """The base of all events of a query."""


@dataclass(frozen=True)
class QueryStartedEvent(QueryEvent):
    """The query's thread runs. Posted before `start` returns."""

    id: str
    run_id: str
    name: str | None
    timestamp: str


@dataclass(frozen=True)
class QueryProgressEvent(QueryEvent):
    """A batch is committed."""

    progress: StreamingQueryProgress


@dataclass(frozen=True)
class QueryIdleEvent(QueryEvent):
    """There has been no batch for `noDataProgressEventInterval`."""

    id: str
    run_id: str
    timestamp: str


@dataclass(frozen=True)
class QueryTerminatedEvent(QueryEvent):
    """The query has ended; `exception` is the text of the error if it failed."""

    id: str
    run_id: str
    exception: str | None = None
    error_class: str | None = None
