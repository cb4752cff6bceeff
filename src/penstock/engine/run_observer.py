"""Callbacks about the runs of a query, for monitoring. They cannot influence a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.progress import StreamingQueryProgress

if TYPE_CHECKING:
    from penstock.engine.stream_execution import StreamExecution


_logger = logging.getLogger(__name__)


class RunObserver:
    """Called on the thread on which the event happens. What a method raises is only logged."""

    def on_starting(self, run: StreamExecution) -> None:
        """The run has its id; its thread has not started yet."""

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        """There is a new progress record. Called on the run's thread: it must return quickly."""

    def on_ended(self, run: StreamExecution) -> None:
        """The run has ended or could not be started. Called before the listeners get the event."""

    def on_awaiting_restart(self, run: StreamExecution, message: str | None) -> None:
        """The run has ended and will be restarted; `message` says when.

        `message` is None if it will not be restarted after all.
        """


class RunObservers(RunObserver):
    """Calls several observers in order. An error in one affects neither the run nor the others."""

    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self._observers = observers

    def on_starting(self, run: StreamExecution) -> None:
        self._tell(run, lambda observer: observer.on_starting(run))

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        self._tell(run, lambda observer: observer.on_progress(run, progress))

    def on_ended(self, run: StreamExecution) -> None:
        self._tell(run, lambda observer: observer.on_ended(run))

    def on_awaiting_restart(self, run: StreamExecution, message: str | None) -> None:
        self._tell(run, lambda observer: observer.on_awaiting_restart(run, message))

    def _tell(self, run: StreamExecution, tell: Callable[[RunObserver], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                _logger.warning("An observer of %s failed", run.identity, exc_info=True)
