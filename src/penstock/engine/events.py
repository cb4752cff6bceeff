"""What a query tells its listeners."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.progress import StreamingQueryProgress


@dataclass(frozen=True)
class QueryEvent:
    """Something that happened to a query."""


@dataclass(frozen=True)
class QueryStartedEvent(QueryEvent):
    """The query's thread runs. Posted before `start` returns."""

    id: str
    run_id: str
    name: str | None
    timestamp: str


@dataclass(frozen=True)
class QueryProgressEvent(QueryEvent):
    """A batch is done."""

    progress: StreamingQueryProgress


@dataclass(frozen=True)
class QueryIdleEvent(QueryEvent):
    """There has been nothing to do for `noDataProgressEventInterval`."""

    id: str
    run_id: str
    timestamp: str


@dataclass(frozen=True)
class QueryTerminatedEvent(QueryEvent):
    """The query is over; `exception` is the text of what ended it if it failed."""

    id: str
    run_id: str
    exception: str | None = None
    error_class: str | None = None
