"""Stopping a query: at once or at a batch boundary, within the time limit or not."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from penstock.engine.events import QueryTerminatedEvent
from penstock.engine.hooks import HookPoint, Hooks
from penstock.engine.run_state import State
from penstock.engine.seam import QueryIdentity
from penstock.engine.settings import Settings
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import OneTimeTrigger, ProcessingTimeTrigger
from penstock.errors import QueryStopTimeoutError, StoppedError, StreamFailedError
from tests.engine.world import PATIENCE, Gate, World, failing
from tests.memory_world.session import InterruptedCallError


def held_in_a_batch(world: World, gate: Gate) -> StreamExecution:
    """A query that is blocked in its first batch."""
    world.add_source("a", range(3))
    world.plan.on_run = gate
    query = world.query()
    query.start()
    gate.wait_entered()
    return query


def test_a_stop_at_once_cancels_the_running_batch(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    query = held_in_a_batch(world, world.gate())
    query.stop()
    assert query.state is State.TERMINATED
    assert query.failure is None
    assert query.await_termination(0) is True
    assert query.reporter.status.message == "Stopped"
    assert world.session.cancelled == [f"Query {query.identity} was stopped"] * 2
    assert world.checkpoint.offset_log.list_batches() == [0]
    assert world.checkpoint.commit_log.list_batches() == []
    assert "a.stop" in world.calls
    last = world.session.events[-1]
    assert isinstance(last, QueryTerminatedEvent)
    assert last.exception is None
    assert f"Query {query.identity} was stopped" in caplog.text


def test_a_stop_waits_for_the_thread_even_if_the_jobs_cannot_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example because the JVM has exited."""
    world = World()
    gate = world.gate(interruptible=False)
    query = held_in_a_batch(world, gate)

    def fail_to_cancel(identity: QueryIdentity, reason: str) -> None:
        gate.open()
        raise ConnectionError("no answer")

    monkeypatch.setattr(world.session, "cancel_jobs", fail_to_cancel)
    query.stop()
    assert query.await_termination(0)
    assert query.failure is None
    assert f"The jobs of {query.identity} were not cancelled" in caplog.text


def test_a_graceful_stop_lets_the_batch_commit() -> None:
    world = World()
    gate = world.gate()
    query = held_in_a_batch(world, gate)
    stopping = threading.Thread(target=lambda: query.stop(graceful=True))
    stopping.start()
    assert query.life.stopping.wait(PATIENCE)
    assert query.is_active
    assert world.session.cancelled == []
    gate.open()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert query.state is State.TERMINATED
    assert world.plan.output == {0: [0, 1, 2]}
    assert world.checkpoint.commit_log.list_batches() == [0]
    assert len(world.session.cancelled) == 1


def test_a_query_may_be_stopped_twice() -> None:
    world = World()
    query = held_in_a_batch(world, world.gate())
    query.stop()
    query.stop()
    query.stop(graceful=True)
    assert world.calls.count("a.stop") == 1
    assert len(world.session.cancelled) == 2


def test_a_query_that_has_ended_by_itself_may_be_stopped() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query(OneTimeTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    query.stop()
    assert world.checkpoint.commit_log.list_batches() == [0]


@pytest.mark.parametrize("graceful", [True, False])
def test_a_query_stopped_before_it_starts_runs_no_batch(graceful: bool) -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    query.stop(graceful=graceful)
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {}
    assert "a.stop" in world.calls


def test_a_stop_that_takes_too_long_is_an_error_and_may_be_tried_again() -> None:
    world = World(Settings(stop_timeout_ms=1))
    gate = world.gate(interruptible=False)
    query = held_in_a_batch(world, gate)
    with pytest.raises(QueryStopTimeoutError) as caught:
        query.stop()
    assert isinstance(caught.value, TimeoutError)
    assert (
        f"Stream Execution thread for stream {query.identity} failed to stop within 1 "
        "milliseconds (specified by spark.sql.streaming.stopTimeout). It was last doing this: "
        "Processing new data"
    ) in str(caught.value)
    gate.open()
    query.stop(timeout=PATIENCE)
    assert query.await_termination(0)


def test_the_timeout_of_the_call_overrides_the_setting() -> None:
    world = World(Settings(stop_timeout_ms=1_000_000))
    gate = world.gate(interruptible=False)
    query = held_in_a_batch(world, gate)
    with pytest.raises(QueryStopTimeoutError, match="within 0 milliseconds"):
        query.stop(timeout=0)
    gate.open()
    query.stop()


def test_a_batch_that_finishes_during_the_stop_is_the_last() -> None:
    world = World()
    gate = world.gate(interruptible=False)
    query = held_in_a_batch(world, gate)
    with pytest.raises(QueryStopTimeoutError):
        query.stop(timeout=0)
    gate.open()
    query.stop()
    assert list(world.plan.output) == [0]
    assert query.failure is None


@pytest.mark.parametrize(("graceful", "commits"), [(False, []), (True, [0])])
def test_a_query_may_stop_itself(graceful: bool, commits: list[int]) -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    world.plan.on_run = lambda: query.stop(graceful=graceful)
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None
    assert world.checkpoint.commit_log.list_batches() == commits
    assert world.session.cancelled == []


def test_a_function_that_wraps_the_error_of_its_stop_has_not_failed() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query()

    def stop_and_wrap() -> None:
        try:
            query.stop()
        except StoppedError as exc:
            raise RuntimeError("the batch ended early") from exc

    world.plan.on_run = stop_and_wrap
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None


@pytest.mark.parametrize(
    ("point", "commits"),
    [
        (HookPoint.AFTER_WAL, []),
        (HookPoint.BEFORE_BATCH, []),
        (HookPoint.AFTER_SINK, []),
        (HookPoint.AFTER_COMMIT, [0]),
    ],
)
def test_a_hook_may_stop_the_query(point: HookPoint, commits: list[int]) -> None:
    world = World()
    world.add_source("a", range(3))
    hooks = Hooks()
    query = world.query(hooks=hooks)
    hooks.add(point, lambda _: query.stop())
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None
    assert world.checkpoint.commit_log.list_batches() == commits
    assert [progress.batch_id for progress in query.reporter.recent_progress] == commits


@pytest.mark.parametrize("method", ["get_offset", "get_batch"])
@pytest.mark.parametrize("graceful", [False, True])
def test_a_batch_is_not_written_after_a_stop_unless_it_is_graceful(
    method: str, graceful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    source = world.add_source("a", range(3))
    query = world.query()
    call = getattr(source, method)

    def stop_and_call(*arguments: Any) -> Any:
        with contextlib.suppress(StoppedError):
            query.stop(graceful=graceful)
        return call(*arguments)

    monkeypatch.setattr(source, method, stop_and_call)
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None
    assert world.checkpoint.offset_log.list_batches() == [0]
    assert world.plan.output == ({0: [0, 1, 2]} if graceful else {})
    assert world.checkpoint.commit_log.list_batches() == ([0] if graceful else [])


def test_an_interruption_without_a_stop_is_a_failure() -> None:
    world = World()
    world.add_source("a", range(3))

    def cancelled_by_someone() -> None:
        raise InterruptedCallError("by someone else")

    world.plan.on_run = cancelled_by_someone
    query = world.query()
    query.start()
    with pytest.raises(StreamFailedError, match="by someone else"):
        query.await_termination(PATIENCE)


@pytest.mark.parametrize("is_classified", [True, False])
def test_another_error_during_a_stop_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, is_classified: bool
) -> None:
    """Also if the session cannot tell whether it is of the stop, as after the end of the JVM."""
    world = World()
    world.add_source("a", range(3))
    query = world.query()
    if not is_classified:
        monkeypatch.setattr(world.session, "is_interruption", lambda error: failing("no answer"))

    def stop_and_fail() -> None:
        with contextlib.suppress(StoppedError):
            query.stop()
        raise ValueError("unrelated")

    world.plan.on_run = stop_and_fail
    query.start()
    with pytest.raises(StreamFailedError, match="unrelated"):
        query.await_termination(PATIENCE)


def test_a_stop_wakes_a_query_that_waits_for_its_interval() -> None:
    world = World()
    source = world.add_source("a", range(3))
    query = world.query(ProcessingTimeTrigger(1_000))
    query.start()
    query.process_all_available()
    query.stop(graceful=True)
    assert query.await_termination(0)
    assert source.rows == [0, 1, 2]
    assert all(target % 1_000 == 0 for target in world.clock.awaited)


def test_a_stop_wakes_threads_in_process_all_available() -> None:
    world = World()
    query = held_in_a_batch(world, world.gate())
    waiting = threading.Thread(target=query.process_all_available)
    waiting.start()
    query.stop()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
