"""Queries with many sinks, without Spark: order, entries, failures, retries, restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.checkpoint.sink_entries import SinkEntry
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink, SinkStatus
from penstock.engine.triggers import AvailableNowTrigger, ManualTrigger
from penstock.errors import (
    ConcurrentUpdateError,
    SinkFailedError,
    StreamFailedError,
)
from tests.engine.sink_worlds import calls_of, crash, entries, failing, fails, run, world_of
from tests.engine.world import PATIENCE, RecordingFaults, StrikeError
from tests.memory_world.files import MemoryFiles
from tests.memory_world.session import InterruptedCallError

# One run.


def test_a_batch_is_computed_then_written_in_order_then_committed() -> None:
    faults = RecordingFaults()
    world = run(world_of("lake", "alerts"), faults)
    assert calls_of(world) == [
        "plan.prepare 0",
        "plan.compute 0",
        "lake.write 0",
        "alerts.write 0",
        "plan.release 0",
    ]
    assert world.plan.written == {"lake": {0: [0, 1]}, "alerts": {0: [0, 1]}}
    points = [point for point, batch_id in faults.reached if batch_id == 0]
    first = points.index(FaultPoint.BEFORE_SINK)
    one = [FaultPoint.BEFORE_NAMED_SINK, FaultPoint.BEFORE_SINK_ENTRY, FaultPoint.AFTER_SINK_ENTRY]
    assert points[first : first + 9] == [
        FaultPoint.BEFORE_SINK,
        FaultPoint.AFTER_COMPUTING,
        *one,
        *one,
        FaultPoint.AFTER_SINK,
    ]
    assert world.checkpoint.commit_log.list_batches() == [0]


def test_an_entry_has_the_timestamp_of_the_plan() -> None:
    world = run(world_of("lake"))
    planned = world.checkpoint.offset_log.get(0)
    assert planned is not None
    assert planned.metadata is not None
    expected = SinkEntry(planned.metadata.batch_timestamp_ms)
    assert world.checkpoint.sink_log("lake").get(0) == expected


def test_progress_has_a_line_for_each_sink() -> None:
    world = world_of(NamedSink("lake", "parquet"), "alerts")
    query = world.query(AvailableNowTrigger())
    query.start()
    query.await_termination(PATIENCE)
    [progress, *_] = query.reporter.recent_progress
    assert [(o.name, o.description, o.status) for o in progress.sink.outcomes] == [
        ("lake", "parquet", SinkStatus.WRITTEN),
        ("alerts", "", SinkStatus.WRITTEN),
    ]
    assert progress.to_dict()["sink"]["metrics"] == {
        "alerts.attempts": "1",
        "alerts.durationMs": "0",
        "alerts.status": "written",
        "lake.attempts": "1",
        "lake.durationMs": "0",
        "lake.status": "written",
    }
    assert progress.sink.num_output_rows == 2


def test_old_entries_are_purged_with_the_logs() -> None:
    world = world_of("lake", rows=0)
    world.session.current_settings = world.settings.__class__(
        polling_delay_ms=1, min_batches_to_retain=2
    )
    query = world.query(ManualTrigger())
    query.start()
    source = world.sources[0]
    for number in range(6):
        source.rows.append(number)  # type: ignore[attr-defined]
        query.step(PATIENCE)
    query.stop()
    assert entries(world, "lake") == world.checkpoint.commit_log.list_batches() == [3, 4, 5]


# Failures.


def test_a_failure_names_the_sink_those_that_have_finished_and_those_not_called() -> None:
    world = world_of("lake", "alerts", "last")
    world.plan.on_write = failing("alerts")
    assert fails(world, SinkFailedError) == (
        "Sink alerts failed in batch 0: OSError: alerts is down\n"
        "Finished, and not called again for this batch: lake.\n"
        "Not called: last."
    )
    assert calls_of(world)[-1] == "plan.release 0"
    assert entries(world, "lake") == [0]
    assert entries(world, "alerts") == entries(world, "last") == []
    assert world.checkpoint.commit_log.list_batches() == []


def test_a_restart_writes_to_the_sinks_without_an_entry_only() -> None:
    files = crash("lake", "alerts", down=["alerts"])
    world = run(world_of("lake", "alerts", files=files))
    assert calls_of(world) == [
        "plan.prepare 0",
        "plan.compute 0",
        "alerts.write 0",
        "plan.release 0",
    ]
    assert world.checkpoint.commit_log.list_batches() == [0]


@pytest.mark.parametrize("has_state", [True, False])
def test_if_all_have_an_entry_the_batch_is_computed_only_for_its_state(has_state: bool) -> None:
    first = world_of("lake", "alerts")
    faults = RecordingFaults((FaultPoint.BEFORE_COMMIT_LOG, 0))
    fails(first, StrikeError, faults)
    assert isinstance(first.files, MemoryFiles)
    world = world_of("lake", "alerts", files=first.files)
    world.plan.has_state = has_state
    query = world.query(AvailableNowTrigger())
    query.start()
    query.await_termination(PATIENCE)
    computed = ["plan.compute 0", "plan.release 0"] if has_state else []
    assert calls_of(world) == ["plan.prepare 0", *computed]
    assert world.checkpoint.commit_log.list_batches() == [0]
    outcomes = query.reporter.recent_progress[0].sink.outcomes
    assert [outcome.status for outcome in outcomes] == [SinkStatus.DONE_BEFORE] * 2


def test_an_entry_of_another_run_is_a_concurrent_update() -> None:
    world = world_of("lake")

    def intrude(name: str) -> None:
        world.files.create_if_absent(".penstock/sinks/lake/0", b"v1\n{}")

    world.plan.on_write = intrude
    assert "Multiple streaming jobs detected for 0" in fails(world, ConcurrentUpdateError)


def test_an_error_that_is_not_of_a_sink_is_raised_as_it_is() -> None:
    world = world_of("lake", NamedSink("alerts", parallel=True))
    world.plan.on_write = failing("alerts")
    fails(world, StrikeError, RecordingFaults((FaultPoint.AFTER_SINK_ENTRY, 0)))


# Retries.


def test_a_sink_is_called_again_after_growing_delays() -> None:
    world = world_of(NamedSink("lake", retries=3, backoff=1.5, max_backoff=4.0), "alerts")
    left = [1, 2, 3]

    def stumble(name: str) -> None:
        if name == "lake" and left:
            left.pop()
            raise OSError("not now")

    world.plan.on_write = stumble
    begin = world.clock.now_ms
    run(world)
    assert calls_of(world).count("lake.write 0") == 4
    assert calls_of(world).count("alerts.write 0") == 1
    waits = [wait - begin for wait in world.clock.awaited]
    assert waits[:3] == [1500, 4500, 8500]


def test_after_its_last_attempt_the_sink_has_failed() -> None:
    world = world_of(NamedSink("lake", retries=2, backoff=0))
    world.plan.on_write = failing("lake")
    text = fails(world, SinkFailedError)
    assert text == "Sink lake failed in batch 0 after 3 attempts: OSError: lake is down"


def test_a_sink_that_times_out_is_called_again() -> None:
    """It may raise the same error as one that a stop has interrupted."""
    world = world_of(NamedSink("lake", retries=1, backoff=0))
    errors = [InterruptedCallError("read timed out")]

    def time_out(name: str) -> None:
        if errors:
            raise errors.pop()

    world.plan.on_write = time_out
    run(world)
    assert calls_of(world).count("lake.write 0") == 2


def test_a_sink_that_times_out_in_its_last_attempt_has_failed() -> None:
    world = world_of(*(NamedSink(name, parallel=True) for name in ("lake", "alerts")))

    def time_out(name: str) -> None:
        raise InterruptedCallError("read timed out") if name == "alerts" else OSError("down")

    world.plan.on_write = time_out
    text = fails(world, SinkFailedError)
    assert "Sink lake failed in batch 0: OSError: down" in text
    assert "Sink alerts failed in batch 0: InterruptedCallError: read timed out" in text


# Parallel sinks.


def test_parallel_sinks_are_written_at_the_same_time_as_the_others() -> None:
    together = threading.Barrier(3, timeout=PATIENCE)
    world = world_of(NamedSink("a", parallel=True), "b", NamedSink("c", parallel=True))

    def meet(name: str) -> None:
        together.wait()

    world.plan.on_write = meet
    run(world)
    assert sorted(world.plan.written) == ["a", "b", "c"]


def test_the_others_finish_when_a_parallel_sink_fails() -> None:
    names = ("a", "b", "c", "d")
    world = world_of(*(NamedSink(name, parallel=name != "c") for name in names))
    world.plan.on_write = failing("a", "d")
    text = fails(world, SinkFailedError)
    assert "Sink a failed in batch 0" in text
    assert "Sink d failed in batch 0" in text
    assert "Finished, and not called again for this batch: b, c." in text
    assert [entries(world, name) for name in names] == [[], [0], [0], []]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_sink_may_stop_the_query_and_the_others_keep_what_they_have(parallel: bool) -> None:
    world = world_of("lake", NamedSink("alerts", parallel=parallel, retries=3))
    query = world.query(AvailableNowTrigger())
    lake_is_called = threading.Event()

    def stop(name: str) -> None:
        if name == "lake":
            lake_is_called.set()
        else:
            assert lake_is_called.wait(PATIENCE)
            query.stop()

    world.plan.on_write = stop
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None
    assert world.checkpoint.commit_log.list_batches() == []
    assert [entries(world, name) for name in ("lake", "alerts")] == [[0], []]


@pytest.mark.parametrize("expected", [SinkFailedError, ConcurrentUpdateError])
def test_a_stop_in_one_sink_does_not_hide_what_another_finds(
    expected: type[BaseException],
) -> None:
    world = world_of(*(NamedSink(name, parallel=True) for name in ("stopping", "failing")))
    query = world.query(AvailableNowTrigger())
    failing_is_called = threading.Event()

    def stop_or_fail(name: str) -> None:
        if name == "stopping":
            assert failing_is_called.wait(PATIENCE)
            query.stop()
        failing_is_called.set()
        assert query.life.terminating.wait(PATIENCE)
        if expected is SinkFailedError:
            raise OSError("down")
        world.files.create_if_absent(".penstock/sinks/failing/0", b"v1\n{}")

    world.plan.on_write = stop_or_fail
    query.start()
    with pytest.raises(StreamFailedError) as caught:
        query.await_termination(PATIENCE)
    assert isinstance(caught.value.__cause__, expected)


@pytest.mark.parametrize("graceful", [False, True])
def test_after_a_stop_no_other_sink_is_called_unless_it_is_graceful(graceful: bool) -> None:
    world = world_of("a", "b", NamedSink("c", retries=3))
    query = world.query(AvailableNowTrigger())
    gate = world.gate(interruptible=False)
    world.plan.on_write = lambda name: gate()
    query.start()
    gate.wait_entered()
    stopping = threading.Thread(target=lambda: query.stop(graceful=graceful))
    stopping.start()
    assert (query.life.stopping if graceful else query.life.terminating).wait(PATIENCE)
    gate.open()
    stopping.join(PATIENCE)
    assert query.failure is None
    assert [entries(world, name) for name in "abc"] == (
        [[0], [0], [0]] if graceful else [[0], [], []]
    )
    assert world.checkpoint.commit_log.list_batches() == ([0] if graceful else [])
    files = world.files
    assert isinstance(files, MemoryFiles)
    again = run(world_of("a", "b", "c", files=files))
    assert sorted(again.plan.written) == ([] if graceful else ["b", "c"])


class _NoThread(threading.Thread):
    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_if_a_thread_cannot_start_the_sinks_that_write_already_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of("a", *(NamedSink(name, parallel=True) for name in ("b", "c", "d")))
    create = world.session.create_sink_thread
    together = threading.Barrier(3, timeout=PATIENCE)

    def create_unless_c(target: Callable[[], None], sink: str) -> threading.Thread:
        return _NoThread() if sink == "c" else create(target, sink)

    def meet(name: str) -> None:
        together.wait()

    monkeypatch.setattr(world.session, "create_sink_thread", create_unless_c)
    world.plan.on_write = meet
    text = fails(world, SinkFailedError)
    assert text == (
        "Sink c failed in batch 0 after 0 attempts: RuntimeError: can't start new thread\n"
        "Finished, and not called again for this batch: a, b, d."
    )
    assert calls_of(world)[-1] == "plan.release 0"
    assert [entries(world, name) for name in "abcd"] == [[0], [0], [], [0]]


def test_a_thread_that_ends_before_it_calls_its_sink_is_a_failure_of_the_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of("a", NamedSink("b", parallel=True))

    def fail_first() -> None:
        raise ConnectionError("no session")

    def create(target: Callable[[], None], sink: str) -> threading.Thread:
        return threading.Thread(target=fail_first)

    monkeypatch.setattr(world.session, "create_sink_thread", create)
    query = world.query(AvailableNowTrigger())
    query.start()
    with pytest.raises(StreamFailedError, match="Sink b failed in batch 0 after 0") as caught:
        query.await_termination(PATIENCE)
    failure = caught.value.__cause__
    assert isinstance(failure, SinkFailedError)
    assert isinstance(failure.__cause__, ConnectionError)
    assert entries(world, "a") == [0]
