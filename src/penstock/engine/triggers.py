"""When batches run: the triggers and what executes them."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.clock import Clock
from penstock.engine.stepping import StepGate
from penstock.errors import UnknownTriggerError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trigger:
    """A user's wish for when batches run."""


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """A batch at every multiple of the interval; interval 0 is as fast as possible."""

    interval_ms: int = 0

    def __post_init__(self) -> None:
        if self.interval_ms < 0:
            raise ValueError("the interval of trigger should not be negative")


@dataclass(frozen=True)
class OneTimeTrigger(Trigger):
    """One batch with everything there is, then the end."""


@dataclass(frozen=True)
class AvailableNowTrigger(Trigger):
    """As many batches as the data present at the start needs, then the end."""


@dataclass(frozen=True)
class ManualTrigger(Trigger):
    """A batch each time that somebody steps through the gate. For tests."""

    gate: StepGate


BatchRunner = Callable[[], bool]
"""Runs one trigger. True while the query is to go on."""


class TriggerExecutor(ABC):
    """Calls the batch runner when it is time to, until there is no more to do."""

    @abstractmethod
    def execute(self, batch_runner: BatchRunner) -> None:
        """Returns when the last batch has run."""

    def wake(self) -> None:
        """Called from another thread: waiting for the next trigger is over."""


class SingleBatchExecutor(TriggerExecutor):
    """One batch."""

    def execute(self, batch_runner: BatchRunner) -> None:
        batch_runner()


class MultiBatchExecutor(TriggerExecutor):
    """Batch after batch until the runner says it is over."""

    def execute(self, batch_runner: BatchRunner) -> None:
        while batch_runner():
            pass


class ProcessingTimeExecutor(TriggerExecutor):
    """A batch at every multiple of the interval. One that overruns delays the next."""

    def __init__(self, trigger: ProcessingTimeTrigger, clock: Clock, wake: threading.Event) -> None:
        self._interval_ms = trigger.interval_ms
        self._clock = clock
        self._wake = wake

    def execute(self, batch_runner: BatchRunner) -> None:
        while True:
            trigger_time = self._clock.time_millis()
            goes_on = batch_runner()
            if self._interval_ms > 0:
                elapsed = self._clock.time_millis() - trigger_time
                if elapsed > self._interval_ms:
                    self._notify_batch_falling_behind(elapsed)
            if not goes_on:
                return
            if self._interval_ms > 0:
                next_time = next_batch_time(trigger_time, self._interval_ms)
                self._clock.wait_till_time(next_time, self._wake)

    def _notify_batch_falling_behind(self, elapsed_ms: int) -> None:
        _logger.warning(
            "Current batch is falling behind. The trigger interval is %s milliseconds, "
            "but spent %s milliseconds",
            self._interval_ms,
            elapsed_ms,
        )


class ManualExecutor(TriggerExecutor):
    """A batch for each step through the gate."""

    def __init__(self, gate: StepGate) -> None:
        self._gate = gate

    def execute(self, batch_runner: BatchRunner) -> None:
        try:
            while self._gate.wait_until_asked():
                goes_on = batch_runner()
                self._gate.finish()
                if not goes_on:
                    return
        finally:
            self._gate.close()

    def wake(self) -> None:
        self._gate.close()


def next_batch_time(now_ms: int, interval_ms: int) -> int:
    """The next multiple of the interval after `now_ms`; `now_ms` itself if it is 0."""
    return now_ms if interval_ms == 0 else now_ms // interval_ms * interval_ms + interval_ms


def trigger_executor_for(
    trigger: Trigger, clock: Clock, wake: threading.Event, *, wrap_for_available_now: bool
) -> TriggerExecutor:
    """The executor of a trigger.

    `wrap_for_available_now` is False when some source cannot stand still and may not be wrapped
    either: then AvailableNow is one single batch.
    """
    match trigger:
        case ProcessingTimeTrigger():
            return ProcessingTimeExecutor(trigger, clock, wake)
        case OneTimeTrigger():
            return SingleBatchExecutor()
        case AvailableNowTrigger():
            return MultiBatchExecutor() if wrap_for_available_now else SingleBatchExecutor()
        case ManualTrigger(gate):
            return ManualExecutor(gate)
        case _:
            raise UnknownTriggerError(f"Unknown type of trigger: {trigger}")
