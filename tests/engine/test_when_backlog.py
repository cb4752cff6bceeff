"""The trigger that waits until enough rows are there."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.data_stream import DataStream
from penstock.engine.events import QueryIdleEvent
from penstock.engine.faults import FaultPoint
from penstock.engine.polling import WhenIdle
from penstock.engine.settings import Settings
from penstock.engine.triggers import AvailableNowTrigger, Surroundings
from penstock.engine.when_backlog import EnoughRows, WhenBacklog
from tests.engine.numbers import NumberStream
from tests.engine.world import PATIENCE, ManualClock, RecordingFaults, World
from tests.memory_world.sources import Abilities


class Counting(NumberStream):
    """A stream that reports its backlog."""

    reports_backlog = True


def counting(world: World, *rows: int) -> Counting:
    stream = Counting("a", rows, world.calls, Abilities(admission_control=True))
    world.sources.append(stream)
    return stream


# When a batch is admitted.


def test_enough_rows_are_admitted() -> None:
    admission = EnoughRows(10, 1_000, ManualClock())
    assert not admission.admits([9])
    assert admission.admits([10])
    assert not admission.admits([4, 5])
    assert admission.admits([4, 6])


def test_fewer_rows_are_admitted_when_they_have_waited() -> None:
    clock = ManualClock()
    admission = EnoughRows(10, 1_000, clock)
    clock.advance(5_000)  # nothing was there: the time does not count
    assert not admission.admits([0])
    assert not admission.admits([1])
    clock.advance(999)
    assert not admission.admits([2])
    clock.advance(1)
    assert admission.admits([2])
    assert not admission.admits([1])


def test_a_source_that_reports_nothing_is_read_at_least_that_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    admission = EnoughRows(10, 1_000, clock)
    assert not admission.admits([None, 9])
    assert admission.admits([None, 10])
    clock.advance(999)
    assert not admission.admits([None, 0])
    clock.advance(1)
    assert admission.admits([None, 0])
    assert caplog.text.count("not every source of this query reports how many rows") == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-2_000, 2_000)), max_size=60))
def test_no_row_waits_longer_than_the_time(steps: list[tuple[int, int]]) -> None:
    """Whatever arrives, also on a clock that is set back: the wait is at most the time."""
    clock = ManualClock(1_000_000)
    admission = EnoughRows(50, 1_000, clock)
    waiting, waited = 0, 0
    for arriving, millis in steps:
        if waiting:
            waited = waited + millis if millis >= 0 else 0
        clock.now_ms += millis
        waiting += arriving
        if admission.admits([waiting]):
            assert waiting >= 50 or waited >= 0
            waiting = waited = 0
        else:
            assert waiting < 50
            assert waited < 1_000


@pytest.mark.parametrize("rows", [0, -1, 1.5, "10"])
def test_the_number_of_rows_is_checked(rows: object) -> None:
    with pytest.raises(ValueError, match="it must be a whole number of at least 1"):
        WhenBacklog(rows=rows)  # type: ignore[arg-type]  # what is tested


def test_the_time_is_checked() -> None:
    with pytest.raises(ValueError, match="or_after is 'soon', not a duration"):
        WhenBacklog(rows=1, or_after="soon")


def test_it_polls_like_a_query_without_a_trigger() -> None:
    surroundings = Surroundings(ManualClock(), threading.Event())
    assert WhenBacklog(rows=1).schedule([], surroundings).when_idle is WhenIdle.BACK_OFF


# In a query.


def wait_for(condition: object, event: threading.Event) -> None:
    assert event.wait(PATIENCE), condition


def test_a_query_waits_for_the_rows_and_then_for_the_time() -> None:
    world = World()
    stream = counting(world, 0, 1)
    execution = world.query(WhenBacklog(rows=3, or_after="1 minute"))
    ran, held = threading.Event(), threading.Event()
    execution.reporter.observe(lambda p: (ran if p.ran_a_batch else held).set())
    execution.start()
    wait_for("a trigger without a batch", held)
    assert world.plan.output == {}
    stream.rows.append(2)
    wait_for("three rows", ran)
    assert world.plan.output == {0: [0, 1, 2]}
    ran.clear()
    stream.rows.append(3)
    execution.life.nudge.set()
    assert execution.runtime is not None
    seen = execution.runtime
    with seen.progress_lock:
        assert seen.progress_lock.wait_for(lambda: not seen.no_new_data, PATIENCE)
    assert world.plan.output == {0: [0, 1, 2]}
    world.clock.advance(60_000)
    wait_for("the time", ran)
    assert world.plan.output == {0: [0, 1, 2], 1: [3]}
    execution.process_all_available()
    execution.stop()


def test_idle_events_are_posted_while_rows_wait() -> None:
    world = World(settings=Settings(polling_delay_ms=1, no_data_progress_interval_ms=1_000))
    counting(world, 0)
    execution = world.query(WhenBacklog(rows=3, or_after="1 hour"))
    idle = threading.Event()
    world.session.on_event = lambda e: idle.set() if isinstance(e, QueryIdleEvent) else None
    first = threading.Event()
    execution.reporter.observe(lambda _: first.set())
    execution.start()
    wait_for("the first trigger", first)
    world.clock.advance(1_000)
    wait_for("an idle event", idle)
    execution.stop()
    assert world.plan.output == {}


def test_a_planned_batch_does_not_wait_and_another_trigger_takes_the_rest() -> None:
    world = World()
    counting(world, 0)
    crashing = world.query(faults=RecordingFaults((FaultPoint.AFTER_OFFSET_LOG, 0)))
    crashing.start()
    crashing._thread.join_stopped(PATIENCE, "test", lambda: "")
    again = World(files=world.files)
    counting(again, 0, 1)
    execution = again.query(WhenBacklog(rows=3, or_after="1 hour"))
    ran = threading.Event()
    execution.reporter.observe(lambda p: ran.set() if p.ran_a_batch else None)
    execution.start()
    wait_for("the planned batch", ran)
    execution.stop()
    assert again.plan.output == {0: [0]}
    last = World(files=world.files)
    counting(last, 0, 1)
    execution = last.query(AvailableNowTrigger())
    execution.start()
    assert execution.await_termination(PATIENCE)
    assert last.plan.output == {1: [1]}


def test_a_source_does_not_report_a_backlog_by_default() -> None:
    source: DataStream = NumberStream("a", range(5), [])
    assert source.backlog_rows(None) is None
