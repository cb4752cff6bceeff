"""State shared by all queries of the Python process; the only global state of this package."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.run_observer import RunObserver

if TYPE_CHECKING:
    from penstock.api.manager import StreamingQueryManager
    from penstock.api.query import StreamingQuery
    from penstock.api.query_start import QueryStart

Starter = Callable[["QueryStart"], "StreamingQuery"]
"""Replaces `StreamingQueryManager.start`: `DataStreamWriter.start` returns what it returns."""


class Process:
    """The active queries by id, and the settings that apply to every start.

    `lock` guards the mappings and `observers`, which get the runs of every query that is started.
    Query ids are unique in the process, not in a session, because two sessions may share a
    checkpoint. A manager is kept by its session and by its active queries only, so that a session
    that is no longer referenced is released.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[str, StreamingQuery] = {}
        self.managers: WeakValueDictionary[str, StreamingQueryManager] = WeakValueDictionary()
        self.advice_given: set[str] = set()
        self.replaced_members: dict[tuple[type, str], Any] = {}
        self.observers: tuple[RunObserver, ...] = ()
        self.faults = NO_FAULTS
        self.starter: Starter | None = None

    def add_observer(self, observer: RunObserver) -> None:
        """Let an observer get the runs of every query that is started from now on."""
        with self.lock:
            self.observers = (*self.observers, observer)

    def remove_observer(self, observer: RunObserver) -> None:
        """Revert `add_observer`. It does nothing for an observer that is not there."""
        with self.lock:
            self.observers = tuple(one for one in self.observers if one is not observer)

    @contextlib.contextmanager
    def inject_faults(self, faults: FaultInjector) -> Iterator[None]:
        """Inject `faults` into every query that is started in the block, on any thread.

        Faults given to the writer with `inject_faults` take precedence.
        """
        before, self.faults = self.faults, faults
        try:
            yield
        finally:
            self.faults = before

    @contextlib.contextmanager
    def started_by(self, starter: Starter) -> Iterator[None]:
        """Call `starter` in place of every start made in the block, on any thread."""
        before, self.starter = self.starter, starter
        try:
            yield
        finally:
            self.starter = before


PROCESS = Process()
