"""The thread that a query runs on, for the threads that start it and wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from penstock.engine.seam import QueryIdentity, StreamSession
from penstock.errors import QueryStopTimeoutError, WrongThreadError

_current: ContextVar[QueryThread | None] = ContextVar("penstock_query_thread", default=None)


class QueryThread:
    """One run's thread. Every method may be called from any thread.

    A thread that runs in a copy of its context, such as that of a parallel sink, counts as this
    one: the run waits for it, so it must not wait for the run.
    """

    def __init__(
        self, session: StreamSession, identity: QueryIdentity, target: Callable[[], None]
    ) -> None:
        self._identity = identity
        self._thread = session.create_thread(
            partial(self._run, target), f"stream execution thread for {identity}"
        )

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        return _current.get() is self

    def _run(self, target: Callable[[], None]) -> None:
        _current.set(self)
        target()

    def start(self, started: threading.Event) -> None:
        """Start the thread; returns when it has set `started` or has ended."""
        self._thread.start()
        while not started.wait(1.0) and self._thread.is_alive():
            pass

    def join(self, timeout: float | None) -> bool:
        """Wait until the thread has ended, at most `timeout` seconds; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def join_stopped(self, bound: float | None, bound_from: str, status: Callable[[], str]) -> None:
        """Wait for the thread of a query that is being stopped.

        Raises QueryStopTimeoutError after `bound` seconds, if there is a bound. Its message names
        `bound_from`, the setting or argument that the bound comes from, and the query's status.
        """
        if not self.join(bound) and bound is not None:
            raise QueryStopTimeoutError(
                f"Stream Execution thread for stream {self._identity} failed to stop within "
                f"{round(bound * 1000)} milliseconds (specified by {bound_from}). "
                f"It was last doing this: {status()}"
            )

    def require_current(self) -> None:
        """Raise WrongThreadError, with Spark's message, unless called on this thread."""
        if not self.is_current:
            raise WrongThreadError(
                "logicalPlan must be initialized in QueryExecutionThread "
                f'"but the current thread was {threading.current_thread().name}'
            )

    def refuse_current(self) -> None:
        """Raise WrongThreadError, with Spark's message, if called on this thread."""
        if self.is_current:
            raise WrongThreadError(
                "Cannot wait for a query state from the same thread that is running the query"
            )
