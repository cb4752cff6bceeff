"""Sources, plans and sinks that raise or hang, stops in every phase, clocks that jump.

Whatever happens in a run, after the next one on the same checkpoint each row is in exactly one
batch, and the batch ids have no gap.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.checkpoint import CheckpointFiles
from penstock.engine.faults import OF_EVERY_QUERY, FaultInjector, FaultPoint
from penstock.engine.hooks import HookPoint, Hooks
from penstock.engine.opening import open_checkpoint
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.settings import Settings
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger, ProcessingTimeTrigger
from penstock.errors import QueryStopTimeoutError, StreamFailedError
from tests.engine.numbers import NumberBatch, NumberPlan, NumberStream
from tests.engine.world import PATIENCE, Gate, World
from tests.memory_world.files import MemoryFiles
from tests.memory_world.sources import Abilities

ROWS = list(range(5))
ONE_A_BATCH = Abilities(
    admission_control=True, available_now=True, latest_seen=True, limit=ReadMaxRows(1)
)


def world_on(files: CheckpointFiles) -> World:
    """A process on a checkpoint: one source with five rows, one per batch."""
    world = World(Settings(polling_delay_ms=1, min_batches_to_retain=2), files)
    world.add_stream("a", ROWS, ONE_A_BATCH)
    return world


def run(world: World) -> StreamExecution:
    """Run a query over all available data; it may fail."""
    query = world.query(AvailableNowTrigger())
    query.start()
    with contextlib.suppress(StreamFailedError):
        assert query.await_termination(PATIENCE)
    return query


def resumes(files: CheckpointFiles, seen: dict[int, list[int]]) -> None:
    """Run a query without a fault: then every row is in exactly one batch."""
    last = world_on(files)
    assert run(last).failure is None
    output = {**seen, **last.plan.output}
    assert output == {n: [n] for n in ROWS}
    assert last.checkpoint.offset_log.list_batches()[-3:] == [2, 3, 4]
    assert last.checkpoint.commit_log.list_batches()[-3:] == [2, 3, 4]


# Raising, at every call.

CALLS: list[tuple[type, str]] = [
    (NumberStream, "default_read_limit"),
    (NumberStream, "prepare_for_trigger_available_now"),
    (NumberStream, "set_latest_seen_offset"),
    (NumberStream, "deserialize_offset"),
    (NumberStream, "initial_offset"),
    (NumberStream, "latest_offset"),
    (NumberStream, "report_latest_offset"),
    (NumberStream, "get_batch"),
    (NumberStream, "commit"),
    (NumberStream, "metrics"),
    (NumberPlan, "prepare"),
    (NumberPlan, "resume_after_commit"),
    (NumberBatch, "run"),
    (NumberBatch, "event_time_stats"),
    (NumberBatch, "commit_metadata"),
    (NumberBatch, "should_run_another_batch"),
    (NumberBatch, "statistics"),
]


class BrokenError(Exception):
    """Raised by a misbehaving call."""


class Misbehaving:
    """Replaces one call of a method, counted from 0 over all objects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, at: int) -> None:
        self.has_struck = False
        original: Callable[..., Any] = getattr(owner, method)
        calls = 0

        def replacement(this: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                self.has_struck = True
                self.strike()
            return original(this, *args, **kwargs)

        monkeypatch.setattr(owner, method, replacement)

    def strike(self) -> None:
        raise BrokenError("broken")


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize(
    ("owner", "method"), CALLS, ids=lambda part: getattr(part, "__name__", part)
)
def test_an_error_at_any_call_fails_the_query_and_the_next_run_recovers(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, at: int
) -> None:
    files, seen = MemoryFiles(), {}
    with monkeypatch.context() as patch:
        broken = Misbehaving(patch, owner, method, at)
        for _ in range(at + 2):
            world = world_on(files)
            query = run(world)
            seen.update(world.plan.output)
            if query.failure is not None:
                break
        assert broken.has_struck == (query.failure is not None)
    if query.failure is not None:
        assert isinstance(query.failure.__cause__, BrokenError)
        assert world.calls[-4:] == [
            "session.shield",
            "a.stop",
            "session.leave",
            "event QueryTerminatedEvent",
        ]
    resumes(files, seen)


def test_every_call_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two runs each of the calls is made at least once, so that the test above has effect."""
    for owner, method in CALLS:
        files = MemoryFiles()
        with monkeypatch.context() as patch:
            broken = Misbehaving(patch, owner, method, 0)
            for _ in range(2):
                run(world_on(files))
        assert broken.has_struck, f"{owner.__name__}.{method} was not called"


# Hanging, at every call that may take long.

SLOW = [
    (NumberStream, "latest_offset"),
    (NumberStream, "get_batch"),
    (NumberStream, "commit"),
    (NumberPlan, "prepare"),
    (NumberBatch, "run"),
]


@pytest.mark.parametrize(
    ("owner", "method"), SLOW, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_call_that_blocks_is_cancelled_by_a_stop(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    files = MemoryFiles()
    world = world_on(files)
    with monkeypatch.context() as patch:
        hanging = Misbehaving(patch, owner, method, 1)
        gate = world.gate()
        patch.setattr(hanging, "strike", gate)
        query = world.query(ProcessingTimeTrigger())
        query.start()
        gate.wait_entered()
        query.stop(timeout=PATIENCE)
    assert query.failure is None
    assert not query.is_active
    resumes(files, world.plan.output)


@pytest.mark.parametrize(
    ("owner", "method"), SLOW, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_call_that_blocks_during_a_stop_is_reported(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    files = MemoryFiles()
    world = world_on(files)
    gate = Gate(interruptible=False)
    with monkeypatch.context() as patch:
        hanging = Misbehaving(patch, owner, method, 1)
        patch.setattr(hanging, "strike", gate)
        query = world.query(ProcessingTimeTrigger())
        query.start()
        gate.wait_entered()
        with pytest.raises(QueryStopTimeoutError, match="failed to stop within 10 milliseconds"):
            query.stop(timeout=0.01)
        gate.open()
        query.stop(timeout=PATIENCE)
    assert query.failure is None
    resumes(files, world.plan.output)


# Stopping, in every phase.

ON_THE_THREAD = [
    point
    for point in OF_EVERY_QUERY
    if point not in {FaultPoint.BEFORE_METADATA, FaultPoint.AFTER_METADATA}
]


class HeldAt(FaultInjector):
    """Blocks the query when it first reaches a point at or after a batch, until released."""

    def __init__(self, point: FaultPoint, batch_id: int) -> None:
        self._point, self._batch_id = point, batch_id
        self.gate = Gate(interruptible=False)

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        is_there = batch_id in (-1, self._batch_id) or point is FaultPoint.AFTER_START_OFFSETS
        if point is self._point and is_there and not self.gate.entered.is_set():
            self.gate()


@pytest.mark.parametrize("graceful", [False, True])
@pytest.mark.parametrize("point", ON_THE_THREAD)
def test_a_stop_in_any_phase_is_no_failure_and_the_checkpoint_resumes(
    point: FaultPoint, graceful: bool
) -> None:
    files = MemoryFiles()
    world = world_on(files)
    held = HeldAt(point, batch_id=3)
    trigger = AvailableNowTrigger() if "stop" in point.value else ProcessingTimeTrigger()
    query = world.query(trigger, faults=held)
    query.start()
    held.gate.wait_entered()
    stopping = threading.Thread(target=lambda: query.stop(graceful=graceful, timeout=PATIENCE))
    stopping.start()
    assert query.life.stopping.wait(PATIENCE)
    held.gate.open()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert query.failure is None
    assert not query.is_active
    assert query.reporter.status.message == "Stopped"
    resumes(files, world.plan.output)


# Clocks that jump.


@pytest.mark.parametrize("jump_ms", [-86_400_000, 86_400_000])
def test_a_clock_that_jumps_is_used_as_it_is(jump_ms: int) -> None:
    files = MemoryFiles()
    world = world_on(files)
    world.clock.now_ms = 1_000_000_000
    world.plan.on_run = lambda: world.clock.advance(jump_ms if len(world.plan.output) == 2 else 1)
    query = run(world)
    assert query.failure is None
    assert world.plan.output == {n: [n] for n in ROWS}
    stamps = [request.metadata.batch_timestamp_ms for request in world.plan.requests]
    assert stamps[3] - stamps[2] == jump_ms
    assert all(progress.duration_ms["addBatch"] >= 0 for progress in query.reporter.recent_progress)
    resumes(files, world.plan.output)


def test_a_clock_that_is_back_after_a_restart_does_not_move_the_watermark() -> None:
    files = MemoryFiles()
    world = world_on(files)
    world.clock.now_ms = 1_000_000_000
    query = run(world)
    later = world_on(files)
    later.clock.now_ms = 5
    later.sources[0].rows.append(5)  # type: ignore[attr-defined]
    assert run(later).failure is None
    assert query.identity.id == later.checkpoint.read_or_create_metadata().id
    assert later.plan.output == {5: [5]}
    assert later.plan.requests[0].metadata.batch_timestamp_ms == 5


# Hooks that raise.


@pytest.mark.parametrize("point", HookPoint)
@pytest.mark.parametrize("strict", [False, True])
def test_an_error_in_a_hook_is_logged_and_fails_the_query_only_if_strict(
    caplog: pytest.LogCaptureFixture, point: HookPoint, strict: bool
) -> None:
    def broken(_: object) -> None:
        raise BrokenError("broken hook")

    files = MemoryFiles()
    world = world_on(files)
    hooks = Hooks(strict)
    hooks.add(point, broken)
    query = StreamExecution(
        identity=open_checkpoint(world.checkpoint),
        session=world.session,
        checkpoint=world.checkpoint,
        plan_factory=lambda identity: world.plan,
        trigger=AvailableNowTrigger(),
        clock=world.clock,
        hooks=hooks,
    )
    query.start()
    if strict:
        with pytest.raises(StreamFailedError, match="broken hook"):
            query.await_termination(PATIENCE)
    else:
        assert query.await_termination(PATIENCE)
        assert caplog.text.count(f"The {point.value} hook") == len(ROWS)
    resumes(files, world.plan.output)
