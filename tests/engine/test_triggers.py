"""Triggers and their executors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.clock import Clock, SystemClock
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.polling import WhenIdle
from penstock.engine.read_limit import ALL_AVAILABLE, ReadMaxRows
from penstock.engine.triggers import (
    AvailableNowTrigger,
    BatchRunner,
    ManualTrigger,
    MultiBatchExecutor,
    OneTimeTrigger,
    ProcessingTimeExecutor,
    ProcessingTimeTrigger,
    Schedule,
    SingleBatchExecutor,
    Surroundings,
    Trigger,
    TriggerExecutor,
    next_batch_time,
)
from penstock.errors import UnknownTriggerError
from tests.engine.numbers import NumberStream
from tests.engine.world import PATIENCE, ManualClock, World
from tests.memory_world.sources import Abilities


def schedule_of(trigger: Trigger, *sources: DataStream, wraps: bool = True) -> Schedule:
    surroundings = Surroundings(ManualClock(), threading.Event(), wraps_for_available_now=wraps)
    return trigger.schedule(sources, surroundings)


def executor_of(
    trigger: Trigger, clock: Clock | None = None, wake: threading.Event | None = None
) -> TriggerExecutor:
    surroundings = Surroundings(clock or ManualClock(), wake or threading.Event())
    return trigger.schedule([], surroundings).executor


class Runner:
    """A batch runner for a number of batches, each with a duration."""

    def __init__(self, clock: ManualClock, *durations: int) -> None:
        self.clock = clock
        self.durations = list(durations)
        self.started_at: list[int] = []

    def __call__(self) -> bool:
        self.started_at.append(self.clock.now_ms)
        self.clock.advance(self.durations.pop(0))
        return bool(self.durations)


# Which executor.


@pytest.mark.parametrize(
    ("trigger", "kind"),
    [
        (ProcessingTimeTrigger(), ProcessingTimeExecutor),
        (ProcessingTimeTrigger(10), ProcessingTimeExecutor),
        (OneTimeTrigger(), SingleBatchExecutor),
        (AvailableNowTrigger(), MultiBatchExecutor),
    ],
)
def test_every_trigger_has_its_executor(trigger: Trigger, kind: type[TriggerExecutor]) -> None:
    assert type(executor_of(trigger)) is kind


def test_available_now_is_one_batch_if_a_source_does_not_support_it() -> None:
    unable = NumberStream("a", range(5), [], Abilities(True, limit=ReadMaxRows(2)))
    schedule = schedule_of(AvailableNowTrigger(), unable, wraps=False)
    assert type(schedule.executor) is SingleBatchExecutor
    assert [unique.limit for unique in schedule.sources] == [ALL_AVAILABLE]
    assert type(schedule_of(AvailableNowTrigger(), unable).executor) is MultiBatchExecutor


@pytest.mark.parametrize(
    ("trigger", "when_idle"),
    [
        (ProcessingTimeTrigger(0), WhenIdle.BACK_OFF),
        (ProcessingTimeTrigger(10), WhenIdle.POLL),
        (OneTimeTrigger(), WhenIdle.POLL),
        (AvailableNowTrigger(), WhenIdle.END),
        (ManualTrigger(), WhenIdle.NEXT_TRIGGER),
    ],
)
def test_every_trigger_defines_what_follows_an_idle_trigger(
    trigger: Trigger, when_idle: WhenIdle
) -> None:
    assert schedule_of(trigger).when_idle is when_idle


def test_a_query_that_is_stepped_has_a_gate_for_each_run() -> None:
    trigger = ManualTrigger()
    assert trigger.gate is not trigger.for_one_run().gate
    interval = ProcessingTimeTrigger(10)
    assert interval.gate is None
    assert interval.for_one_run() is interval


def test_an_object_that_is_no_trigger_is_refused() -> None:
    with pytest.raises(UnknownTriggerError, match=r"^Unknown type of trigger: 5 seconds$"):
        World().query("5 seconds")  # type: ignore[arg-type]  # what is tested


# A user-defined trigger.


class Twice(Trigger, TriggerExecutor):
    """Two batches with at most one row of each source."""

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        limited = [UniqueSource(source, ReadMaxRows(1), source) for source in sources]
        return Schedule(self, limited)

    def execute(self, batch_runner: BatchRunner) -> None:
        batch_runner()
        batch_runner()


def test_a_user_defined_trigger_needs_only_its_class() -> None:
    world = World()
    world.add_stream("a", range(5), Abilities(admission_control=True))
    execution = world.query(Twice())
    execution.start()
    assert execution.await_termination(PATIENCE)
    assert world.plan.output == {0: [0], 1: [1]}


class WhenNudged(Trigger, TriggerExecutor):
    """Two batches after a nudge, which waits for those that run."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._nudges = 0
        self._is_stopped = False

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        return Schedule(self, [UniqueSource(source, ALL_AVAILABLE, source) for source in sources])

    def execute(self, batch_runner: BatchRunner) -> None:
        goes_on = True
        while goes_on:
            with self._condition:
                self._condition.wait_for(lambda: self._nudges > 0 or self._is_stopped)
                self._nudges = 0
                goes_on = not self._is_stopped and batch_runner() and batch_runner()

    def wake(self) -> None:
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()

    def nudge(self) -> None:
        with self._condition:
            self._nudges += 1
            self._condition.notify_all()


def test_a_nudge_may_wait_for_a_batch() -> None:
    world = World()
    world.add_stream("a", range(5))
    gate = world.gate()
    world.plan.on_run = gate
    execution = world.query(WhenNudged())
    execution.start()
    waiting = [
        threading.Thread(target=execution.process_all_available, daemon=True) for _ in range(2)
    ]
    waiting[0].start()
    gate.wait_entered()
    waiting[1].start()  # its nudge comes during the batch
    gate.open()
    for thread in waiting:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert world.plan.output == {0: [0, 1, 2, 3, 4]}
    execution.stop()


def test_an_interval_is_not_negative() -> None:
    with pytest.raises(ValueError, match="the interval of trigger should not be negative"):
        ProcessingTimeTrigger(-1)


# The executors.


def test_once_is_one_batch_whatever_the_runner_returns() -> None:
    clock = ManualClock()
    runner = Runner(clock, 1, 1, 1)
    executor_of(OneTimeTrigger()).execute(runner)
    assert len(runner.started_at) == 1


def test_available_now_runs_batches_until_the_runner_returns_false() -> None:
    runner = Runner(ManualClock(), 1, 1, 1)
    executor_of(AvailableNowTrigger()).execute(runner)
    assert len(runner.started_at) == 3


def test_interval_zero_is_as_fast_as_possible(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_000)
    runner = Runner(clock, 700, 1, 0, 5)
    executor_of(ProcessingTimeTrigger(0), clock).execute(runner)
    assert runner.started_at == [1_000, 1_700, 1_701, 1_701]
    assert clock.awaited == []
    assert caplog.text == ""


def test_batches_start_at_multiples_of_the_interval(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_030)
    runner = Runner(clock, 10, 10, 100, 10)
    executor_of(ProcessingTimeTrigger(100), clock).execute(runner)
    assert runner.started_at == [1_030, 1_100, 1_200, 1_300]
    assert "falling behind" not in caplog.text


def test_a_batch_that_overruns_delays_the_next_and_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(1_000)
    runner = Runner(clock, 250, 10, 10)
    executor_of(ProcessingTimeTrigger(100), clock).execute(runner)
    assert runner.started_at == [1_000, 1_250, 1_300]
    assert (
        "Current batch is falling behind. The trigger interval is 100 milliseconds, "
        "but spent 250 milliseconds"
    ) in caplog.text


def test_a_query_that_is_stopped_does_not_wait_for_its_interval() -> None:
    clock, wake = ManualClock(1_000), threading.Event()

    def run() -> bool:
        wake.set()
        return len(clock.awaited) < 1

    executor_of(ProcessingTimeTrigger(100), clock, wake).execute(run)
    assert clock.now_ms == 1_000


# The time of the next batch.


@given(st.integers(0, 2**45), st.integers(1, 2**40))
def test_the_next_batch_is_at_the_first_multiple_after_now(now: int, interval: int) -> None:
    following = next_batch_time(now, interval)
    assert following % interval == 0
    assert now < following <= now + interval
    assert next_batch_time(following, interval) == following + interval


@given(st.integers(0, 2**45))
def test_without_an_interval_the_next_batch_is_now(now: int) -> None:
    assert next_batch_time(now, 0) == now


@pytest.mark.parametrize(
    ("now", "expected"), [(0, 100), (1, 100), (99, 100), (100, 200), (101, 200), (150, 200)]
)
def test_the_cases_of_sparks_own_suite(now: int, expected: int) -> None:
    assert next_batch_time(now, 100) == expected


# The machine's clock.


def test_the_system_clock_advances() -> None:
    clock = SystemClock()
    first, elapsed = clock.time_millis(), clock.elapsed_millis()
    assert first > 1_600_000_000_000
    assert clock.wait_till_time(first + 5, threading.Event()) >= first + 5
    assert clock.elapsed_millis() > elapsed


def test_a_wait_for_a_past_time_returns_at_once() -> None:
    clock = SystemClock()
    now = clock.time_millis()
    assert clock.wait_till_time(now - 1, threading.Event()) >= now


def test_a_wait_ends_when_the_query_is_woken() -> None:
    clock, wake = SystemClock(), threading.Event()
    done: list[int] = []
    far = clock.time_millis() + 10_000_000
    wait: Callable[[], None] = lambda: done.append(clock.wait_till_time(far, wake))  # noqa: E731
    waiting = threading.Thread(target=wait)
    waiting.start()
    wake.set()
    waiting.join(PATIENCE)
    assert done
    assert done[0] < far


class Awakened(threading.Event):
    """An event that is never set and records the timeouts of waits, without waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0)
        return False


def test_a_clock_that_is_set_back_does_not_prolong_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([1_000_000, 1_000_000 - 86_400_000, 1_000_000 - 86_400_000])
    clock, wake = SystemClock(), Awakened()
    monkeypatch.setattr(clock, "time_millis", lambda: next(readings))
    assert clock.wait_till_time(1_060_000, wake) == 1_000_000 - 86_400_000
    assert wake.waits == [60.0]


def test_a_clock_that_is_set_forward_ends_a_wait_at_the_next_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = iter([1_000_000, 90_000_000, 90_000_000])
    clock, wake = SystemClock(), Awakened()
    monkeypatch.setattr(clock, "time_millis", lambda: next(readings))
    assert clock.wait_till_time(1_060_000, wake) == 90_000_000
    assert wake.waits == [60.0]


def test_a_small_deviation_of_the_clock_continues_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([1_000_000, 1_059_970, 1_060_000, 1_060_000])
    clock, wake = SystemClock(), Awakened()
    monkeypatch.setattr(clock, "time_millis", lambda: next(readings))
    assert clock.wait_till_time(1_060_000, wake) == 1_060_000
    assert wake.waits == [60.0, 0.03]


def test_the_default_of_elapsed_millis_is_the_time() -> None:
    assert ManualClock(7).elapsed_millis() == 7.0
