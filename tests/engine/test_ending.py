"""The end of a query: its error, the release of its resources, its temporary checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from penstock.checkpoint import OffsetSeq
from penstock.engine.data_stream import DataStream
from penstock.engine.events import (
    QueryEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
)
from penstock.engine.faults import FaultPoint
from penstock.engine.run_state import State
from penstock.engine.seam import QueryIdentity, QueryPlan
from penstock.engine.settings import Settings
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import (
    AvailableNowTrigger,
    OneTimeTrigger,
    Schedule,
    Surroundings,
    Trigger,
)
from penstock.errors import StreamFailedError
from tests.engine.sink_worlds import world_of
from tests.engine.world import ENDING, PATIENCE, RecordingFaults, World, failing
from tests.memory_world.files import MemoryFiles
from tests.memory_world.sources import Abilities


def failed(query: StreamExecution) -> StreamFailedError:
    """Start a query that fails, and return its error."""
    query.start()
    with pytest.raises(StreamFailedError) as caught:
        query.await_termination(PATIENCE)
    assert query.failure is caught.value
    return caught.value


# Failing.


def test_a_failure_is_raised_with_its_cause_and_offsets(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    source = world.add_source("a", range(3))
    world.add_source("b")
    query = world.query(name="numbers")
    query.start()
    query.process_all_available()
    world.plan.on_run = failing
    source.rows.append(3)
    with pytest.raises(StreamFailedError) as caught:
        query.await_termination(PATIENCE)
    failure = caught.value
    identity = query.identity
    assert str(failure) == (
        f"Query [id = {identity.id}, runId = {identity.run_id}] terminated with exception: "
        "RuntimeError: boom"
    )
    assert isinstance(failure.__cause__, RuntimeError)
    assert (failure.start_offset, failure.end_offset) == ("[2, -]", "[3, -]")
    assert f"Identifier: {identity}" in failure.debug
    assert "Current Committed Offsets: {Numbers[a]: 2}" in failure.debug
    assert "Current Available Offsets: {Numbers[a]: 3}" in failure.debug
    assert "Current State: ACTIVE" in failure.debug
    assert "Logical Plan:\nNumberPlan over" in failure.debug
    assert query.state is State.TERMINATED
    assert query.reporter.status.message == "Terminated with exception: RuntimeError: boom"
    assert not query.reporter.status.is_data_available
    assert not query.reporter.status.is_trigger_active
    assert f"Query {identity} terminated with error" in caplog.text


@pytest.mark.parametrize("sinks", [(), ("lake", "alerts")])
def test_an_error_that_is_its_own_cause_is_a_failure(sinks: Sequence[str]) -> None:
    world = world_of(*sinks)

    def raise_from_itself(sink: str = "") -> None:
        try:
            failing()
        except RuntimeError as error:
            raise error from error

    world.plan.on_run = world.plan.on_write = raise_from_itself
    assert "boom" in str(failed(world.query()))


def test_a_failure_is_posted_to_listeners_and_resources_are_released() -> None:
    world = World()
    world.add_source("a", range(3))
    world.plan.on_run = failing
    ended: list[StreamExecution] = []
    query = world.query(on_terminated=ended.append)
    failed(query)
    last = world.session.events[-1]
    assert isinstance(last, QueryTerminatedEvent)
    assert last.exception is not None
    assert "RuntimeError: boom" in last.exception
    assert last.error_class is None
    assert ended == [query]
    assert world.calls[-4:] == ENDING
    assert world.checkpoint.offset_log.list_batches() == [0]
    assert world.checkpoint.commit_log.list_batches() == []


@pytest.mark.parametrize(
    ("point", "batch_id"),
    [
        (FaultPoint.BEFORE_LATEST_OFFSET, None),
        (FaultPoint.BEFORE_OFFSET_LOG, None),
        (FaultPoint.AFTER_OFFSET_LOG, 1),
        (FaultPoint.BEFORE_SOURCE_COMMIT, 1),
        (FaultPoint.AFTER_SOURCE_COMMIT, 1),
        (FaultPoint.AFTER_SINK, 1),
    ],
)
def test_a_failure_has_the_id_of_its_batch_if_that_is_planned(
    point: FaultPoint, batch_id: int | None
) -> None:
    world = World()
    source = world.add_source("a", range(3))
    query = world.query(faults=RecordingFaults((point, 1)))
    world.plan.on_run = lambda: source.rows.append(3)
    failure = failed(query)
    assert failure.batch_id == batch_id
    planned = [0] if batch_id is None else [0, 1]
    assert world.checkpoint.offset_log.list_batches() == planned


@pytest.mark.parametrize("step", ["error_class", "translated", "error_message", "describe_error"])
def test_a_failure_is_reported_even_if_a_step_of_describing_it_fails(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example because the JVM has exited."""
    world = World()
    world.add_source("a", range(3))
    world.plan.on_run = failing
    query = world.query()
    monkeypatch.setattr(world.session, step, lambda error: failing("no answer"))
    failure = failed(query)
    assert "terminated with exception: RuntimeError: boom" in str(failure)
    assert query.reporter.status.message == "Terminated with exception: RuntimeError: boom"
    last = world.session.events[-1]
    assert isinstance(last, QueryTerminatedEvent)
    assert "RuntimeError: boom" in str(last.exception)
    assert "An error could not be described completely" in caplog.text


def test_a_failure_is_reported_even_if_a_source_cannot_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    first = world.add_source("a", range(3))
    world.add_source("b", range(3))
    first.on_stop = failing

    def lose_the_connection() -> None:
        monkeypatch.setattr(type(first), "__str__", lambda source: failing("no connection"))
        failing()

    world.plan.on_run = lose_the_connection
    failure = failed(world.query())
    assert "RuntimeError: boom" in str(failure)
    assert "which cannot be shown: RuntimeError('no connection')" in failure.debug
    assert failure.end_offset == "[2, 2]"
    assert "b.stop" in world.calls


def test_the_terminated_event_of_a_successful_query_has_no_exception() -> None:
    world = World()
    world.add_source("a", range(3))
    query = world.query(OneTimeTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.session.events[-1] == QueryTerminatedEvent(
        query.identity.id, query.identity.run_id, None, None
    )
    assert isinstance(world.session.events[1], QueryProgressEvent)
    assert query.reporter.status.message == "Stopped"


def test_a_query_whose_plan_fails_ends_before_it_is_initialized() -> None:
    world = World()

    def refuse(identity: QueryIdentity) -> QueryPlan:
        raise ValueError("no such table")

    query = StreamExecution(
        identity=QueryIdentity("the-id", "the-run", None),
        session=world.session,
        checkpoint=world.checkpoint,
        plan_factory=refuse,
        trigger=OneTimeTrigger(),
    )
    failure = failed(query)
    assert (failure.start_offset, failure.end_offset) == ("[]", "[]")
    assert "Current State: INITIALIZING" in failure.debug
    assert "Logical Plan" not in failure.debug
    with pytest.raises(StreamFailedError, match="no such table"):
        query.process_all_available()


def test_a_session_that_cannot_be_entered_ends_the_query_and_not_the_caller() -> None:
    world = World()
    world.session.on_enter = failing
    failed(world.query())
    assert [type(event) for event in world.session.events] == [QueryTerminatedEvent]


class Unschedulable(Trigger):
    """A trigger whose `schedule` raises."""

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        raise ValueError("no such calendar")


def test_a_trigger_that_fails_ends_the_query_and_its_sources_are_stopped() -> None:
    world = World()
    source = world.add_source("a", range(3))
    world.sources.append(source)
    failure = failed(world.query(Unschedulable()))
    assert "no such calendar" in str(failure)
    assert world.calls.count("a.stop") == 1


def test_available_now_falls_back_to_one_batch(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_stream("a", range(5))
    query = world.query(AvailableNowTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1, 2, 3, 4]}
    assert "Falling back to single batch execution" in caplog.text


def test_available_now_wraps_sources_if_allowed(caplog: pytest.LogCaptureFixture) -> None:
    world = World(Settings(available_now_wrapper=True))
    world.add_stream("a", range(5), Abilities(admission_control=True))
    query = world.query(AvailableNowTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1, 2, 3, 4]}
    assert "Activating the wrapper implementation" in caplog.text


def test_every_step_of_the_end_runs_even_if_others_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    first, second = world.add_source("a", range(3)), world.add_source("b", range(3))
    first.on_stop = failing

    def refuse_the_end(event: QueryEvent) -> None:
        if isinstance(event, QueryTerminatedEvent):
            failing("no listener")

    def refuse(query: StreamExecution) -> None:
        failing("no manager")

    world.session.on_event = refuse_the_end
    query = world.query(OneTimeTrigger(), on_terminated=refuse, delete_checkpoint_on_stop=True)
    query.start()
    assert query.await_termination(PATIENCE)
    assert world.calls[-5:] == [*ENDING[:2], "b.stop", *ENDING[2:]]
    assert second.rows
    assert isinstance(world.files, MemoryFiles)
    assert world.files.directories == {}
    assert "Failed to stop streaming source: Numbers[a]. Resources may have leaked." in caplog.text
    assert caplog.text.count(f"A step of ending query {query.identity} failed") == 1
    assert caplog.text.count(f"An observer of {query.identity} failed") == 1


# The temporary checkpoint.


@pytest.mark.parametrize(
    ("temporary", "force", "fails", "kept"),
    [
        (True, False, False, False),
        (True, False, True, True),
        (True, True, True, False),
        (False, True, False, True),
    ],
)
def test_a_temporary_checkpoint_is_deleted_unless_the_query_failed(
    temporary: bool, force: bool, fails: bool, kept: bool
) -> None:
    world = World(replace(Settings(), force_delete_temporary_checkpoint=force))
    world.add_source("a", range(3))
    if fails:
        world.plan.on_run = failing
    query = world.query(OneTimeTrigger(), delete_checkpoint_on_stop=temporary)
    if fails:
        failed(query)
    else:
        query.start()
        assert query.await_termination(PATIENCE)
    assert world.files.exists("metadata") is kept


def test_a_temporary_checkpoint_that_cannot_be_deleted_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.add_source("a", range(3))
    assert isinstance(world.files, MemoryFiles)
    world.files.failure = OSError("busy")
    query = world.query(OneTimeTrigger(), delete_checkpoint_on_stop=True)
    query.start()
    assert query.await_termination(PATIENCE)
    assert f"Cannot delete {world.checkpoint.root}" in caplog.text


def test_an_entry_written_by_another_run_fails_the_query() -> None:
    world = World()
    source = world.add_source("a", range(3))
    query = world.query()
    query.start()
    query.process_all_available()
    World(files=world.files).checkpoint.offset_log.add(1, OffsetSeq(("9",)))
    source.rows.append(3)
    with pytest.raises(StreamFailedError, match="Concurrent update to the log"):
        query.await_termination(PATIENCE)
