"""Triggers, which decide when batches run, and their executors."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.engine.clock import Clock
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.polling import WhenIdle
from penstock.engine.read_limit import ReadLimit
from penstock.engine.stepping import StepGate
from penstock.engine.unique_sources import (
    all_support_available_now,
    for_available_now,
    with_own_limits,
    without_limits,
)

_logger = logging.getLogger(__name__)

BatchRunner = Callable[[], bool]
"""Runs one trigger. Returns True if another one may follow."""


class TriggerExecutor(ABC):
    """Calls the batch runner at the times that the trigger defines."""

    @abstractmethod
    def execute(self, batch_runner: BatchRunner) -> None:
        """Call the batch runner repeatedly, on the query's thread. The query ends when this
        returns, and fails if it raises.

        Each call runs at most one batch. It returns False, without a batch if it has not begun, if
        the query was stopped: return then.
        """

    def wake(self) -> None:
        """Called on another thread when the query is stopped: end a wait for the next trigger.

        May be called before `execute`.
        """

    def nudge(self) -> None:
        """Called on another thread that waits in `process_all_available`: run a batch soon.

        For an executor that otherwise waits for something that may never happen, though there is
        data. Return at once. May be called before `execute`.
        """


@dataclass(frozen=True)
class Surroundings:
    """What a trigger may use of its query: the clock, and the event that is set by a stop.

    `wraps_for_available_now` says whether a source without support for AvailableNow may be wrapped.
    `batches` returns how many batches the run has committed. `started_ms` is when it was started.
    `is_retry` says that the run follows one that has failed in a trigger: its first batch is due.
    """

    clock: Clock
    stopping: threading.Event
    wraps_for_available_now: bool = False
    batches: Callable[[], int] = lambda: 0
    started_ms: int = 0
    is_retry: bool = False

    def wait_until(self, time_ms: int) -> bool:
        """Wait until a time in milliseconds since the epoch; False if the query is stopped."""
        self.clock.wait_till_time(time_ms, self.stopping)
        return not self.stopping.is_set()


class Admission(ABC):
    """Decides whether new data is read now or left for later."""

    @abstractmethod
    def admits(self, backlog: Sequence[int | None]) -> bool:
        """Called at each trigger, on the query's thread, before a batch is constructed.

        `backlog` has the number of rows that each source has to read, None if it is not known. If
        the result is False, the sources are not read, and the trigger is one without new data.
        """


@dataclass(frozen=True)
class Schedule:
    """How a trigger runs one query: the executor, and the sources with their read limits.

    `when_idle` is what follows a trigger without a batch. `admission` is None if all data may be
    read at once. Without `has_limits` the read limits of the sources are ignored on purpose.
    """

    executor: TriggerExecutor
    sources: list[UniqueSource]
    when_idle: WhenIdle = WhenIdle.POLL
    admission: Admission | None = None
    has_limits: bool = True

    @classmethod
    def of(
        cls,
        sources: Sequence[DataStream],
        executor: TriggerExecutor,
        *,
        limit: ReadLimit | None = None,
        when_idle: WhenIdle = WhenIdle.NEXT_TRIGGER,
        admission: Admission | None = None,
    ) -> Schedule:
        """A schedule of the distinct sources, each with its own read limit, or with `limit`."""
        unique = with_own_limits(sources)
        if limit is not None:
            unique = [UniqueSource(one.stream, limit, one.original) for one in unique]
        return cls(executor, unique, when_idle, admission)


class Trigger(ABC):
    """Decides when the batches of a query run, and the read limits of its sources.

    The engine uses only the members declared here, so a trigger may be defined anywhere.

        class OnDemand(penstock.Trigger, penstock.TriggerExecutor):
            def __init__(self):
                self._asked = threading.Event()

            def fire(self):
                self._asked.set()

            def schedule(self, sources, surroundings):
                return penstock.Schedule.of(sources, self)

            def execute(self, batch_runner):
                goes_on = True
                while goes_on:
                    self._asked.wait()
                    self._asked.clear()
                    goes_on = batch_runner()

            def wake(self):
                self._asked.set()
    """

    @abstractmethod
    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        """Called once per run of a query, on its thread, after its sources are created."""

    @property
    def ends_with_available_data(self) -> bool:
        """Whether the query ends when the data that was available at its start is processed.

        It is passed on to Spark's stateful operators.
        """
        return False

    @property
    def gate(self) -> StepGate | None:
        """The gate that `StreamExecution.step` uses; None if `step` is not supported."""
        return None

    def for_one_run(self) -> Trigger:
        """The trigger for one run: a copy if the trigger has state that runs must not share."""
        return self


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Runs a batch at every multiple of the interval; with interval 0, as often as possible."""

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
    """Runs one batch with all available data."""

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule(SingleBatchExecutor(), without_limits(sources), has_limits=False)


@dataclass(frozen=True)
class AvailableNowTrigger(Trigger):
    """Runs batches within the read limits until the data available at the start is processed.

    A single batch if a source does not support AvailableNow and may not be wrapped.
    """

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        if surroundings.wraps_for_available_now or all_support_available_now(sources):
            return Schedule(MultiBatchExecutor(), for_available_now(sources), WhenIdle.END)
        return Schedule(SingleBatchExecutor(), without_limits(sources), has_limits=False)

    @property
    def ends_with_available_data(self) -> bool:
        return True


class ManualTrigger(Trigger):
    """Runs a batch for each call of `StreamExecution.step`. For tests."""

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
    """Runs one batch."""

    def execute(self, batch_runner: BatchRunner) -> None:
        batch_runner()


class MultiBatchExecutor(TriggerExecutor):
    """Runs batches without a pause until the runner returns False."""

    def execute(self, batch_runner: BatchRunner) -> None:
        while batch_runner():
            pass


class ProcessingTimeExecutor(TriggerExecutor):
    """Runs a batch at every multiple of the interval. A batch that takes longer delays the next."""

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
    """Runs a batch for each requested step."""

    def __init__(self, gate: StepGate) -> None:
        self._gate = gate

    def execute(self, batch_runner: BatchRunner) -> None:
        try:
            while self._gate.wait_for_request():
                goes_on = batch_runner()
                self._gate.finish()
                if not goes_on:
                    return
        finally:
            self._gate.close()

    def wake(self) -> None:
        self._gate.close()


def next_batch_time(now_ms: int, interval_ms: int) -> int:
    """The next multiple of the interval after `now_ms`; `now_ms` itself if the interval is 0."""
    return now_ms if interval_ms == 0 else now_ms // interval_ms * interval_ms + interval_ms
