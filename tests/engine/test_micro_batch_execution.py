"""The steps of one trigger, and the status messages during it."""

from __future__ import annotations

import threading

import pytest

from penstock.checkpoint import OffsetSeqMetadata
from penstock.engine.micro_batch_execution import MicroBatchExecution
from penstock.engine.polling import Polling
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.runtime import QueryRuntime
from penstock.engine.settings import Settings
from penstock.engine.triggers import (
    AvailableNowTrigger,
    OneTimeTrigger,
    Surroundings,
    Trigger,
)
from penstock.engine.watermark import EventTimeStats
from tests.engine.world import PATIENCE, World
from tests.memory_world.sources import Abilities


class Statuses:
    """Records every status message of a query."""

    def __init__(self, runtime: QueryRuntime) -> None:
        self.messages: list[str] = []
        self._update = runtime.reporter.update_status
        runtime.reporter.update_status = self.note  # type: ignore[method-assign]

    def note(self, message: str | None = None, **flags: bool | None) -> None:
        if message is not None:
            self.messages.append(message)
        self._update(message, **flags)


class Waits(threading.Event):
    """An event that records the timeouts of its waits."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return False


class Stepped:
    """Runs an engine one trigger at a time, on this thread."""

    def __init__(self, world: World, trigger: Trigger | None = None) -> None:
        self.world = world
        self.runtime = world.runtime()
        self.statuses = Statuses(self.runtime)
        self.active = True
        self.waits = Waits()
        surroundings = Surroundings(world.clock, threading.Event(), wraps_for_available_now=True)
        self.engine = MicroBatchExecution(
            self.runtime,
            (trigger or OneTimeTrigger()).schedule(world.sources, surroundings),
            is_active=lambda: self.active,
            finish=self.finish,
            polling=Polling(self.runtime.session.settings.polling_delay_ms, self.waits),
        )

    def finish(self) -> None:
        self.active = False

    def trigger(self) -> list[str]:
        """Run a trigger; returns its status messages."""
        self.statuses.messages.clear()
        self.engine.run_activated_stream()
        return list(self.statuses.messages)


def test_a_trigger_with_data_runs_a_batch_and_sets_the_status() -> None:
    world = World()
    world.add_source("a", range(3))
    stepped = Stepped(world)
    assert stepped.trigger() == [
        "Getting offsets from Numbers[a]",
        "Writing offsets to log",
        "Processing new data",
        "Waiting for next trigger",
    ]
    assert stepped.runtime.reporter.status.is_data_available
    assert stepped.engine.context.batch_id == 1
    assert not stepped.engine.context.is_current_batch_constructed
    assert world.plan.output == {0: [0, 1, 2]}


def test_a_trigger_without_data_waits_and_stays_at_its_batch() -> None:
    world = World()
    world.add_source("a")
    stepped = Stepped(world)
    assert stepped.trigger() == [
        "Getting offsets from Numbers[a]",
        "Waiting for data to arrive",
        "Waiting for next trigger",
    ]
    assert not stepped.runtime.reporter.status.is_data_available
    assert stepped.engine.context.batch_id == 0
    stepped.trigger()
    assert stepped.engine.context.batch_id == 0
    assert world.plan.output == {}


def test_a_trigger_without_data_that_cleans_up_sets_the_status() -> None:
    world = World()
    world.add_source("a", range(3))
    world.plan.operators = ["w"]
    world.plan.has_state = True
    world.plan.stats_of = lambda request: (
        [EventTimeStats("w", 0, 1, max_ms=50)] if request.data else []
    )
    stepped = Stepped(world)
    stepped.trigger()
    assert "No new data but cleaning up state" in stepped.trigger()
    assert not stepped.runtime.reporter.status.is_data_available
    assert "Waiting for data to arrive" in stepped.trigger()
    assert world.plan.output == {0: [0, 1, 2], 1: []}


def test_a_query_that_is_no_longer_active_only_waits() -> None:
    world = World()
    world.add_source("a", range(3))
    stepped = Stepped(world)
    stepped.active = False
    assert stepped.trigger() == ["Waiting for next trigger"]
    assert world.calls == []


def test_jobs_of_sources_and_sinks_are_described_as_the_batch() -> None:
    world = World()
    world.add_source("a", range(3))
    stepped = Stepped(world)
    stepped.trigger()
    assert world.session.descriptions == ["numbers\nid = the-id\nrunId = the-run\nbatch = 0"]
    assert world.calls.index("session.describe_jobs 0") < world.calls.index("a.get_offset")


def test_start_offsets_are_populated_on_the_first_trigger_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    source = world.add_source("a", range(3))
    stepped = Stepped(world)
    for row in range(3):
        source.rows.append(row)
        stepped.trigger()
    assert caplog.text.count("Starting new streaming query.") == 1
    assert sorted(world.plan.output) == [0, 1, 2]


def test_an_uncommitted_batch_is_run_before_sources_are_called() -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(0, "4", watermark_ms=7, timestamp_ms=123)
    stepped = Stepped(world)
    assert stepped.trigger() == ["Processing new data", "Waiting for next trigger"]
    assert world.plan.output == {0: [0, 1, 2, 3, 4]}
    assert "a.get_offset" not in world.calls
    [request] = world.plan.requests
    assert (request.metadata.batch_watermark_ms, request.metadata.batch_timestamp_ms) == (7, 123)


def test_available_now_ends_with_the_data_available_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    world.add_source("a", range(3))
    stepped = Stepped(world, AvailableNowTrigger())
    stepped.engine.run_activated_stream()
    assert not stepped.active
    assert world.plan.output == {0: [0, 1, 2]}
    assert (
        "Finished processing all available data for the trigger, terminating this "
        "Trigger.AvailableNow query"
    ) in caplog.text


def test_the_polling_delay_applies_only_after_a_trigger_without_a_batch() -> None:
    world = World(Settings(polling_delay_ms=70))
    source = world.add_source("a")
    stepped = Stepped(world)
    stepped.trigger()
    assert stepped.waits.seconds == [0.07]
    source.rows.append(1)
    stepped.trigger()
    assert stepped.waits.seconds == [0.07]


def test_waiting_threads_are_woken_after_the_report() -> None:
    world = World()
    world.add_source("a", range(3))
    stepped = Stepped(world)
    reported: list[int] = []
    stepped.runtime.signal_progress = lambda: reported.append(  # type: ignore[method-assign]
        len(stepped.runtime.reporter.recent_progress)
    )
    stepped.trigger()
    assert reported == [1]


# Whole queries, by trigger.


def test_once_takes_everything_in_one_batch(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_stream("a", range(5), Abilities(admission_control=True, limit=ReadMaxRows(2)))
    query = world.query(OneTimeTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1, 2, 3, 4]}
    assert "is ignored when Trigger.Once is used" in caplog.text


def test_available_now_applies_limits_up_to_the_data_at_the_start() -> None:
    world = World()
    stream = world.add_stream(
        "a", range(5), Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(2))
    )
    world.plan.on_run = lambda: stream.rows.append(99)
    query = world.query(AvailableNowTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1], 1: [2, 3], 2: [4]}


def test_available_now_runs_batches_without_data_too() -> None:
    world = World()
    world.add_stream("a", range(3), Abilities(admission_control=True, available_now=True))
    world.plan.operators = ["w"]
    world.plan.has_state = True
    world.plan.stats_of = lambda request: (
        [EventTimeStats("w", 0, 1, max_ms=50)] if request.data else []
    )
    query = world.query(AvailableNowTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1, 2], 1: []}


def test_a_query_continues_after_the_last_run_with_any_trigger() -> None:
    first = World()
    first.add_source("a", range(3))
    query = first.query(OneTimeTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    second = World(files=first.files)
    second.add_source("a", range(5))
    again = second.query()
    assert again.identity.id == query.identity.id
    assert again.identity.run_id != query.identity.run_id
    again.start()
    again.process_all_available()
    again.stop()
    assert second.plan.output == {1: [3, 4]}
    last = second.checkpoint.offset_log.get(1)
    assert last is not None
    assert isinstance(last.metadata, OffsetSeqMetadata)
