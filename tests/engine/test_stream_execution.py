"""Starting a query and waiting for it."""

from __future__ import annotations

import threading

import pytest

from penstock.engine.events import (
    QueryStartedEvent,
)
from penstock.engine.run_state import State
from penstock.engine.seam import QueryIdentity
from penstock.engine.triggers import OneTimeTrigger
from penstock.errors import StreamFailedError, WrongThreadError
from tests.engine.world import ENDING, PATIENCE, World, failing

# Starting.


def test_start_returns_after_the_started_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    world.add_source("a", range(3))
    query = world.query(name="numbers")
    states = [query.state]
    assert query.is_active
    query.start()
    identity = query.identity
    assert world.session.events[0] == QueryStartedEvent(
        identity.id, identity.run_id, "numbers", "1970-01-01T00:00:01.000Z"
    )
    assert world.calls[:2] == ["session.enter", "event QueryStartedEvent"]
    assert query.life.initialized.wait(PATIENCE)
    states.append(query.state)
    query.stop()
    assert [*states, query.state] == [State.INITIALIZING, State.ACTIVE, State.TERMINATED]
    assert f"Starting {identity}. Use {world.checkpoint.root} to store" in caplog.text
    assert "Finish initializing with logical plan:\nNumberPlan over Numbers[a]" in caplog.messages


def test_a_query_is_named_by_its_name_and_ids() -> None:
    assert str(QueryIdentity("i", "r", None)) == "[id = i, runId = r]"
    assert str(QueryIdentity("i", "r", "n")) == "n [id = i, runId = r]"


def test_a_query_runs_on_a_thread_of_its_own_that_is_named_after_it() -> None:
    world = World()
    world.add_source("a", range(3))
    names: list[str] = []
    world.plan.on_run = lambda: names.append(threading.current_thread().name)
    query = world.query(OneTimeTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert names == [f"stream execution thread for {query.identity}"]


def test_the_session_is_entered_first_and_left_when_sources_are_stopped() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query(OneTimeTrigger(), name="n")
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.calls[0] == "session.enter"
    assert world.calls[-4:] == ENDING
    assert world.session.descriptions[0].startswith("n\nid = ")
    assert world.session.descriptions[0].endswith("\nbatch = init")


def test_the_plan_is_bound_on_the_querys_own_thread_and_once() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query(OneTimeTrigger())
    with pytest.raises(WrongThreadError) as caught:
        _ = query.logical_plan
    assert str(caught.value) == (
        "logicalPlan must be initialized in QueryExecutionThread "
        f'"but the current thread was {threading.current_thread().name}'
    )
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.logical_plan is world.plan


def test_a_query_has_no_runtime_before_it_is_initialized() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    assert query.runtime is None
    assert query.checkpoint is world.checkpoint
    assert query.failure is None
    assert query.explain() == "No physical plan. Waiting for data."


def test_a_query_explains_its_last_batch() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    query.start()
    query.process_all_available()
    assert query.explain() == "batch 0, extended=False"
    assert query.explain(extended=True) == "batch 0, extended=True"
    query.stop()


class Impatient(threading.Event):
    """An event whose first wait times out."""

    def __init__(self) -> None:
        super().__init__()
        self._waited = False

    def wait(self, timeout: float | None = None) -> bool:
        first, self._waited = not self._waited, True
        return False if first else super().wait(timeout)


def test_start_waits_as_long_as_the_thread_lives() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    query.life.started = Impatient()
    query.start()
    assert isinstance(world.session.events[0], QueryStartedEvent)
    query.stop()


def test_start_does_not_wait_for_a_thread_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    ends_at_once = threading.Thread(target=lambda: None)
    monkeypatch.setattr(world.session, "create_thread", lambda target, name: ends_at_once)
    query = world.query()
    query.life.started = Impatient()
    query.start()
    assert world.session.events == []


# Waiting.


def test_all_available_is_processed_when_the_wait_returns() -> None:
    world = World()
    source = world.add_source("a", range(3))
    query = world.query()
    query.start()
    query.process_all_available()
    source.rows.extend([3, 4])
    query.process_all_available()
    assert [row for rows in world.plan.output.values() for row in rows] == [0, 1, 2, 3, 4]
    query.stop()
    query.process_all_available()


def test_a_wait_can_begin_before_the_query_is_initialized() -> None:
    world = World()
    world.add_source("a", range(3))
    gate = world.gate()
    world.session.on_enter = gate
    query = world.query()
    starting = threading.Thread(target=query.start)
    starting.start()
    gate.wait_entered()
    waiting = threading.Thread(target=query.process_all_available)
    waiting.start()
    gate.open()
    starting.join(PATIENCE)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert world.plan.output == {0: [0, 1, 2]}
    query.stop()


def test_a_wait_for_all_available_ends_when_the_query_fails() -> None:
    world = World()
    world.add_source("a", range(3))
    gate = world.gate()

    def die() -> None:
        gate()
        failing()

    world.plan.on_run = die
    query = world.query()
    query.start()
    gate.wait_entered()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            query.process_all_available()
        except StreamFailedError as exc:
            errors.append(exc)

    waiting = threading.Thread(target=wait)
    waiting.start()
    gate.open()
    waiting.join(PATIENCE)
    assert errors == [query.failure]


def test_a_wait_with_a_timeout_returns_whether_the_query_has_ended() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    query.start()
    assert query.await_termination(0) is False
    query.stop()
    assert query.await_termination() is True


def test_a_query_cannot_wait_for_itself() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query(OneTimeTrigger())
    refused: list[str] = []

    def wait_for_itself() -> None:
        for wait in (query.await_termination, query.process_all_available):
            with pytest.raises(WrongThreadError) as caught:
                wait()
            refused.append(str(caught.value))

    world.plan.on_run = wait_for_itself
    query.start()
    assert query.await_termination(PATIENCE)
    assert set(refused) == {
        "Cannot wait for a query state from the same thread that is running the query"
    }


def test_a_failure_is_recorded_even_if_the_plan_cannot_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example because the JVM has exited."""
    world = World()
    world.add_source("a", range(3))
    monkeypatch.setattr(type(world.plan), "__str__", lambda plan: failing("gone"))
    monkeypatch.setattr(world.plan, "prepare", lambda request: failing("the JVM died"))
    query = world.query()
    query.start()
    with pytest.raises(StreamFailedError, match="the JVM died") as failed:
        query.await_termination(10)
    assert "which cannot be shown" in failed.value.debug
