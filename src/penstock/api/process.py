"""What the queries of one Python process share. All state of this room that is global is here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.faults import NO_FAULTS, FaultInjector

if TYPE_CHECKING:
    from penstock.api.manager import StreamingQueryManager
    from penstock.api.query import StreamingQuery
    from penstock.api.start import QueryStart

Starter = Callable[["QueryStart"], "StreamingQuery"]
"""Carries out a start; what it returns is what the program gets."""


class Process:
    """The queries that run, by id, and what applies to every start. `lock` guards the mappings.

    Ids are unique in the process, not in a session: two sessions may share a checkpoint.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[str, StreamingQuery] = {}
        self.managers: dict[str, StreamingQueryManager] = {}
        self.advice_given: set[str] = set()
        self.replaced_members: dict[tuple[type, str], Any] = {}
        self.faults = NO_FAULTS
        self.starter: Starter | None = None

    @contextlib.contextmanager
    def passing_through(self, faults: FaultInjector) -> Iterator[None]:
        """Let every query started meanwhile, on any thread, go through `faults`.

        A writer's own `passing_through` comes first.
        """
        before, self.faults = self.faults, faults
        try:
            yield
        finally:
            self.faults = before

    @contextlib.contextmanager
    def started_by(self, starter: Starter) -> Iterator[None]:
        """Let `starter` carry out every start meanwhile, on any thread."""
        before, self.starter = self.starter, starter
        try:
            yield
        finally:
            self.starter = before


PROCESS = Process()
