"""When batches run: the triggers and what executes them."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.engine.clock import Clock
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.polling import WhenIdle
from penstock.engine.stepping import StepGate
from penstock.engine.unique_sources import (
    all_can_stand_still,
    standing_still,
    with_own_limits,
    without_limits,
)

_logger = logging.getLogger(__name__)

BatchRunner = Callable[[], bool]
"""Runs one trigger. True while the query is to go on."""


class TriggerExecutor(ABC):
    """Calls the batch runner when it is time to, until there is no more to do."""

    @abstractmethod
    def execute(self, batch_runner: BatchRunner) -> None:
        """Returns when the last batch has run."""

    def wake(self) -> None:
        """Called from another thread when the query stops: ends a wait for the next trigger."""


@dataclass(frozen=True)
class Surroundings:
    """What a trigger may use: the query's clock, and the event that is set when it stops.

    `wraps_for_available_now` is whether a source that does not support AvailableNow may be wrapped.
    """

    clock: Clock
    stopping: threading.Event
    wraps_for_available_now: bool = False


@dataclass(frozen=True)
class Schedule:
    """How one query runs under a trigger: its executor, and its sources with their limits."""

    executor: TriggerExecutor
    sources: list[UniqueSource]
    when_idle: WhenIdle = WhenIdle.POLL


class Trigger(ABC):
    """When the batches of a query run and how much of its sources each may take.

    The engine asks a trigger nothing but what is declared here, so that one defined elsewhere
    runs as those below do.
    """

    @abstractmethod
    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        """Called once for each run of a query, on its thread, when its sources exist."""

    @property
    def ends_with_available_data(self) -> bool:
        """Whether the query ends when the data present at its start is processed.

        Spark's stateful operators are told so.
        """
        return False

    @property
    def gate(self) -> StepGate | None:
        """The gate that `StreamExecution.step` goes through; None: no stepping by hand."""
        return None

    def for_one_run(self) -> Trigger:
        """The trigger for one run of a query: a copy if it has state that runs must not share."""
        return self


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """A batch at every multiple of the interval; interval 0 is as fast as possible."""

    interval_ms: int = 0

    def __post_init__(self) -> None:
        if self.interval_ms < 0:
            raise ValueError("the interval of trigger should not be negative")

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        executor = ProcessingTimeExecutor(
            self.interval_ms, surroundings.clock, surroundings.stopping
        )
        when_idle = WhenIdle.BACK_OFF if self.interval_ms == 0 else WhenIdle.POLL
        return Schedule(executor, with_own_limits(sources), when_idle)


@dataclass(frozen=True)
class OneTimeTrigger(Trigger):
    """One batch with everything there is, then the end."""

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule(SingleBatchExecutor(), without_limits(sources))


@dataclass(frozen=True)
class AvailableNowTrigger(Trigger):
    """As many batches as the data present at the start needs, then the end.

    One single batch if a source does not support it and may not be wrapped.
    """

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        if surroundings.wraps_for_available_now or all_can_stand_still(sources):
            return Schedule(MultiBatchExecutor(), standing_still(sources), WhenIdle.END)
        return Schedule(SingleBatchExecutor(), without_limits(sources))

    @property
    def ends_with_available_data(self) -> bool:
        return True


class ManualTrigger(Trigger):
    """A batch each time that somebody steps through the gate. For tests."""

    def __init__(self, gate: StepGate | None = None) -> None:
        self._gate = gate or StepGate()

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule(ManualExecutor(self._gate), with_own_limits(sources), WhenIdle.NEXT_TRIGGER)

    @property
    def gate(self) -> StepGate:
        return self._gate

    def for_one_run(self) -> ManualTrigger:
        return ManualTrigger()


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

    def __init__(self, interval_ms: int, clock: Clock, wake: threading.Event) -> None:
        self._interval_ms = interval_ms
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
