"""The state of a run of a query, shared by its thread and the threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from penstock.engine.batch_context import BatchContext
from penstock.errors import StreamFailedError


class State(Enum):
    """INITIALIZING until the sources exist, ACTIVE while batches may run, then TERMINATED."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    TERMINATED = "TERMINATED"


class RunState:
    """The state of a run and its events. Every method may be called from any thread.

    `started`, `initialized` and `terminated` are set once and stay set. `stopping` ends a wait for
    the next trigger, `nudge` a wait for data, `terminating` a wait inside a batch. `failure` is the
    error if the run has failed, `batches` the number of batches that it has committed.
    """

    def __init__(self) -> None:
        self.started = threading.Event()
        self.initialized = threading.Event()
        self.terminated = threading.Event()
        self.stopping = threading.Event()
        self.nudge = threading.Event()
        self.terminating = threading.Event()
        self.failure: StreamFailedError | None = None
        self.batches = 0
        self._state = State.INITIALIZING
        self._lock = threading.Lock()
        self._stops_at_boundary = False
        self._stop_conditions: list[Callable[[BatchContext], bool]] = []

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_active(self) -> bool:
        return self._state is not State.TERMINATED

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested and the run has not ended yet."""
        return self._stops_at_boundary and not self.terminated.is_set()

    @property
    def stops_at_boundary(self) -> bool:
        return self._stops_at_boundary

    @property
    def goes_on(self) -> bool:
        """Whether another trigger may start."""
        return self.is_active and not self._stops_at_boundary

    def activate(self) -> bool:
        """INITIALIZING -> ACTIVE. Returns False if the run was stopped in the meantime."""
        with self._lock:
            if self._state is State.INITIALIZING:
                self._state = State.ACTIVE
            return self._state is State.ACTIVE

    def terminate(self) -> None:
        """Set TERMINATED: no batch starts after this."""
        with self._lock:
            self.terminating.set()  # first: who sees the state relies on it
            self._state = State.TERMINATED

    def stop_at_boundary(self) -> None:
        """Request a stop: no trigger starts after this, and a wait for one ends."""
        self._stops_at_boundary = True
        self.stopping.set()
        self.nudge.set()

    def stop_after(self, condition: Callable[[BatchContext], bool]) -> None:
        """Stop after the first committed batch for which the condition holds."""
        self._stop_conditions.append(condition)

    def close_batch(self, context: BatchContext) -> None:
        """Called on the run's thread when a batch is committed."""
        self.batches += 1
        if any(condition(context) for condition in self._stop_conditions):
            self._stops_at_boundary = True

    def raise_failure(self) -> None:
        """Raise `failure` if the run has failed."""
        if self.failure is not None:
            raise self.failure
