"""Where a run of a query is in its life, shared by its thread and by those who wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from penstock.engine.batch_context import BatchContext
from penstock.errors import StreamFailedError


class State(Enum):
    """INITIALIZING until the sources are there, ACTIVE while batches may run, then TERMINATED."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    TERMINATED = "TERMINATED"


class RunState:
    """The state of a run and the events of its life. Every method may be called from any thread.

    `started`, `initialized` and `terminated` are set once and stay set. `stopping` ends a wait for
    the next trigger, `nudge` a wait for data. `failure` is what the run died of.
    """

    def __init__(self) -> None:
        self.started = threading.Event()
        self.initialized = threading.Event()
        self.terminated = threading.Event()
        self.stopping = threading.Event()
        self.nudge = threading.Event()
        self.failure: StreamFailedError | None = None
        self.has_done_a_batch = False
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
        """Whether it has been told to stop and has not yet."""
        return self._stops_at_boundary and not self.terminated.is_set()

    @property
    def stops_at_boundary(self) -> bool:
        return self._stops_at_boundary

    @property
    def goes_on(self) -> bool:
        """Whether another trigger is to follow."""
        return self.is_active and not self._stops_at_boundary

    def activate(self) -> bool:
        """INITIALIZING -> ACTIVE, unless the run was stopped meanwhile."""
        with self._lock:
            if self._state is State.INITIALIZING:
                self._state = State.ACTIVE
            return self._state is State.ACTIVE

    def terminate(self) -> None:
        """No batch begins after this."""
        with self._lock:
            self._state = State.TERMINATED

    def stop_at_boundary(self) -> None:
        """No trigger begins after this, and no wait for one goes on."""
        self._stops_at_boundary = True
        self.stopping.set()
        self.nudge.set()

    def stop_after(self, condition: Callable[[BatchContext], bool]) -> None:
        """Stop at the first batch boundary at which the condition holds of the batch just done."""
        self._stop_conditions.append(condition)

    def close_batch(self, context: BatchContext) -> None:
        """Called by the run's thread when a batch is committed."""
        self.has_done_a_batch = True
        if any(condition(context) for condition in self._stop_conditions):
            self._stops_at_boundary = True

    def raise_failure(self) -> None:
        """Raise what the run died of, if it did."""
        if self.failure is not None:
            raise self.failure
