"""Taking the start of a query over from the script that asks for it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.api.errors import StreamingQueryException
from penstock.api.query import StreamingQuery
from penstock.api.stop_conditions import StopCondition
from penstock.engine.stream_execution import StreamExecution

if TYPE_CHECKING:
    from penstock.api.writer import DataStreamWriter

StartInterceptor = Callable[["DataStreamWriter"], StreamingQuery]
"""Called with a writer in place of its start; what it returns is what the script gets."""

_interceptor: StartInterceptor | None = None


def start_interceptor() -> StartInterceptor | None:
    """Who takes the start of every query over, if anybody does."""
    return _interceptor


@contextlib.contextmanager
def intercepting(interceptor: StartInterceptor) -> Iterator[None]:
    """Let no query be started meanwhile, on any thread: the interceptor is called instead."""
    global _interceptor
    before, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = before


class UnstartedQuery(StreamingQuery):
    """Stands for a query that was not started, as one that has ended without a batch."""

    def __init__(self, name: str | None) -> None:
        self._ids = str(uuid.uuid4()), str(uuid.uuid4())
        self._name = name

    @property
    def id(self) -> str:
        return self._ids[0]

    @property
    def runId(self) -> str:
        return self._ids[1]

    @property
    def name(self) -> str:
        return self._name  # type: ignore[return-value]  # None, as in PySpark

    @property
    def isActive(self) -> bool:
        return False

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Not started", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        return []

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        return None

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        return None if timeout is None else True

    def processAllAvailable(self) -> None:
        pass

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        pass

    def stop_at_boundary(self) -> None:
        pass

    def step(self, timeout: float | None = None) -> StreamingQueryProgress | None:
        return None

    def exception(self) -> StreamingQueryException | None:
        return None

    def explain(self, extended: bool = False) -> None:
        print("Not started.")

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        pass

    def __repr__(self) -> str:
        return f"Streaming Query {self._name or ''} [not started]"
