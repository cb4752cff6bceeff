"""The trigger with the times of a cron expression."""

from __future__ import annotations

import importlib
import threading
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine import cron
from penstock.engine.cron import Cron, CronExecutor
from penstock.engine.faults import FaultPoint
from penstock.engine.triggers import ProcessingTimeTrigger, Surroundings
from penstock.errors import EnvironmentProblemError
from penstock.testing import ManualClock as SteppedClock
from tests.engine.world import PATIENCE, ManualClock, RecordingFaults, World

MINUTE = 60_000


def at(text: str, tz: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp() * 1000)


def executor_of(clock: ManualClock) -> CronExecutor:
    surroundings = Surroundings(clock, threading.Event(), started_ms=clock.now_ms)
    return CronExecutor(Cron("* * * * *").next_time, surroundings)


def times(trigger: Cron, after: int, number: int) -> list[str]:
    found = []
    for _ in range(number):
        after = trigger.next_time(after)
        found.append(f"{datetime.fromtimestamp(after / 1000, timezone.utc):%m-%d %H:%M}")
    return found


# The times.


def test_the_times_are_those_of_the_expression() -> None:
    trigger = Cron("*/5 * * * *")
    assert times(trigger, at("2026-03-01T12:03:20"), 3) == [
        "03-01 12:05",
        "03-01 12:10",
        "03-01 12:15",
    ]
    assert trigger.next_time(at("2026-03-01T12:05:00")) == at("2026-03-01T12:10:00")


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_the_next_time_is_after_now_and_at_most_an_interval_away(now: int) -> None:
    due = Cron("*/5 * * * *", tz="Europe/Paris").next_time(now)
    assert due % (5 * MINUTE) == 0
    assert now < due <= now + 5 * MINUTE


def test_a_time_zone_has_its_daylight_saving_time() -> None:
    trigger = Cron("30 2 * * *", tz="Europe/Paris")
    # On 29 March 2026 there is no 02:30 in Paris; on 25 October there are two.
    assert times(trigger, at("2026-03-27T12:00"), 3) == [
        "03-28 01:30",
        "03-29 01:00",
        "03-30 00:30",
    ]
    assert times(trigger, at("2026-10-24T12:00"), 2) == ["10-25 00:30", "10-26 01:30"]


def test_an_expression_with_seconds_has_daylight_saving_time_too() -> None:
    trigger = Cron("15 30 2 * * *", tz="Europe/Paris")
    days = ["2026-03-28", "2026-03-30", "2026-10-24", "2026-10-26"]
    spring, after, autumn, last = (at(f"{day}T02:30:15", "Europe/Paris") for day in days)
    assert trigger.next_time(spring) == at("2026-03-29T01:00:15")
    assert trigger.next_time(at("2026-03-29T01:00:15")) == after
    assert trigger.next_time(autumn) == at("2026-10-25T00:30:15")
    assert trigger.next_time(at("2026-10-25T00:30:15")) == last


def test_every_second_is_real_time() -> None:
    trigger = Cron("*/30 * * * * *", tz="Europe/Paris")
    for hour in range(4):  # of UTC: two of them are 02:00 to 03:00 in Paris
        now = at(f"2026-10-25T{hour:02}:00:00")
        assert trigger.next_time(now) == now + 30_000


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_time_is_not_due_again_in_the_hour_that_is_repeated(expression: str) -> None:
    trigger = Cron(expression, tz="Europe/Paris")
    again = at("2026-10-25T01:10:00")  # 02:10 in Paris, for the second time
    assert trigger.next_time(again) == at("2026-10-26T01:30:00")


@settings(deadline=None)
@given(
    st.sampled_from(["30 2 * * *", "0 30 2 * * *", "0 1-3 * * *", "*/7 2 * * *", "5 * * * * *"]),
    st.sampled_from(["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Havana"]),
    st.integers(at("2026-01-01"), at("2027-01-01")),
)
def test_the_next_time_is_after_now_and_before_that_of_any_later_time(
    expression: str, tz: str, now: int
) -> None:
    trigger = Cron(expression, tz)
    due = trigger.next_time(now)
    assert now < due
    assert trigger.next_time(due - 1) == due
    assert trigger.next_time((now + due) // 2) == due


def test_a_time_zone_may_be_an_object() -> None:
    assert (
        repr(Cron("0 3 * * *", tz=ZoneInfo("Asia/Tokyo"))) == "Cron('0 3 * * *', tz='Asia/Tokyo')"
    )


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "61 * * * *", "every minute", "* * * * * * *"]
)
def test_an_invalid_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"is not a cron expression: .*such as '\*/5 \* \* \* \*'"):
        Cron(expression)


def test_an_expression_without_a_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronsim.CronSim.__next__", lambda self: next(iter(())))
    with pytest.raises(ValueError, match="has no time in the next 50 years"):
        Cron("0 0 * 2 1#5")


@pytest.mark.parametrize("tz", ["Nowhere/Town", "", "../etc", 3])
def test_an_unknown_time_zone_is_refused(tz: object) -> None:
    with pytest.raises(ValueError, match="is not the name of a time zone, such as 'Europe/Paris'"):
        Cron("* * * * *", tz=tz)  # type: ignore[arg-type]  # what is tested


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(cron, "import_module", missing)
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'penstock\[cron\]'"):
        Cron("* * * * *")
    assert importlib.import_module is not missing


# The executor.


def test_batches_run_at_the_times_and_not_at_the_start() -> None:
    clock = ManualClock(30_000)
    started: list[int] = []

    def run() -> bool:
        started.append(clock.now_ms)
        clock.advance(10_000)
        return len(started) < 3

    executor_of(clock).execute(run)
    assert started == [MINUTE, 2 * MINUTE, 3 * MINUTE]


def test_a_batch_that_overruns_is_followed_by_one_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(30_000)
    started: list[int] = []

    def run() -> bool:
        started.append(clock.now_ms)
        clock.advance(150_000 if len(started) == 1 else 1_000)
        return len(started) < 3

    executor_of(clock).execute(run)
    assert started == [MINUTE, MINUTE + 150_000, 4 * MINUTE]
    assert "It ended 90000 milliseconds after the next time of its trigger" in caplog.text


def test_a_clock_that_is_set_back_does_not_start_a_batch_early() -> None:
    class SetBack(ManualClock):
        def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
            if not self.awaited:
                self.awaited.append(target_ms)
                self.now_ms -= 10_000
                return self.now_ms
            return super().wait_till_time(target_ms, wake)

    clock = SetBack(50_000)
    started: list[int] = []

    def run() -> bool:
        started.append(clock.now_ms)
        return False

    executor_of(clock).execute(run)
    assert started == [MINUTE]


def test_the_first_batch_of_a_retry_is_due_at_once() -> None:
    clock = ManualClock(30_000)
    started: list[int] = []

    def run() -> bool:
        started.append(clock.now_ms)
        return len(started) < 2

    surroundings = Surroundings(clock, threading.Event(), started_ms=30_000, is_retry=True)
    CronExecutor(Cron("* * * * *").next_time, surroundings).execute(run)
    assert started == [30_000, MINUTE]


def test_a_query_runs_at_the_times_and_stops_at_once() -> None:
    clock = SteppedClock(30_000)
    world = World()
    source = world.add_source("a", [1])
    execution = world.query(Cron("* * * * *"))
    execution._clock = clock
    done = threading.Event()
    execution.reporter.observe(lambda progress: done.set())
    execution.start()
    assert execution.life.initialized.wait(PATIENCE)
    assert not world.plan.output
    clock.advance(30)
    assert done.wait(PATIENCE)
    assert world.plan.output == {0: [1]}
    source.rows.append(2)
    execution.stop()
    assert not execution.is_active
    assert world.plan.output == {0: [1]}


def test_a_batch_that_an_earlier_run_planned_runs_at_the_next_time() -> None:
    world = World()
    world.add_source("a", [1, 2])
    crashing = world.query(faults=RecordingFaults((FaultPoint.AFTER_OFFSET_LOG, 0)))
    crashing.start()
    crashing._thread.join_stopped(PATIENCE, "test", lambda: "")
    again = World(files=world.files)
    again.add_source("a", [1, 2, 3])
    execution = again.query(Cron("* * * * *"))
    execution.start()
    execution.process_all_available()
    execution.stop()
    assert again.plan.output == {0: [1, 2], 1: [3]}
    last = World(files=world.files)
    last.add_source("a", [1, 2, 3, 4])
    other = last.query(ProcessingTimeTrigger())
    other.start()
    other.process_all_available()
    other.stop()
    assert last.plan.output == {2: [4]}
