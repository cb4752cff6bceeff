"""Who is told of the life of a query's runs, without having a part in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.progress import StreamingQueryProgress

if TYPE_CHECKING:
    from penstock.engine.stream_execution import StreamExecution


_logger = logging.getLogger(__name__)


class RunObserver:
    """Told of each run, on the thread where it happens. What a method raises is logged only."""

    def on_starting(self, run: StreamExecution) -> None:
        """The run has its id; its thread is about to start."""

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        """A progress record was made. Called on the run's thread, so it has to be quick."""

    def on_ended(self, run: StreamExecution) -> None:
        """The run is over, or could not be started. Listeners hear of it after this."""

    def on_awaiting_restart(self, run: StreamExecution, message: str | None) -> None:
        """Another run is to follow one that has ended, as `message` says; None: not any more."""


class RunObservers(RunObserver):
    """Several observers as one, in order. None of them can fail the run or the others."""

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
