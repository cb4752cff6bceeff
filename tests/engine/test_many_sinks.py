"""Queries with many sinks, without Spark: order, entries, failures, retries, restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from penstock.checkpoint.sink_entries import SinkEntry, SinkNames
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink, SinkStatus
from penstock.engine.triggers import AvailableNowTrigger, ManualTrigger
from penstock.errors import (
    CheckpointError,
    ConcurrentUpdateError,
    MalformedLogError,
    SinkAheadError,
    SinkFailedError,
    SinkRenamedError,
    StreamFailedError,
)
from tests.engine.world import PATIENCE, RecordingFaults, StrikeError, World
from tests.memory_world.files import MemoryFiles


def world_of(*sinks: NamedSink | str, files: MemoryFiles | None = None, rows: int = 2) -> World:
    """A process with these sinks, and one source with so many rows."""
    world = World(files=files or MemoryFiles())
    world.add_stream("a", range(rows))
    world.plan.many = [NamedSink(sink) if isinstance(sink, str) else sink for sink in sinks]
    return world


def run(world: World, faults: RecordingFaults | None = None) -> World:
    query = world.query(AvailableNowTrigger(), faults=faults or RecordingFaults())
    query.start()
    query.await_termination(PATIENCE)
    return world


def fails(world: World, kind: type[BaseException], faults: RecordingFaults | None = None) -> str:
    """Run a query that fails; returns the message of the cause."""
    with pytest.raises(StreamFailedError) as caught:
        run(world, faults)
    assert isinstance(caught.value.__cause__, kind)
    return str(caught.value.__cause__)


def failing(*names: str) -> Callable[[str], None]:
    def write(name: str) -> None:
        if name in names:
            raise OSError(f"{name} is down")

    return write


def crash(*sinks: NamedSink | str, down: Sequence[str], rows: int = 2) -> MemoryFiles:
    """The files after a first run in which some sinks have failed in batch 0."""
    world = world_of(*sinks, rows=rows)
    world.plan.on_write = failing(*down)
    fails(world, SinkFailedError)
    assert isinstance(world.files, MemoryFiles)
    return world.files


def calls_of(world: World) -> list[str]:
    """What happened to batches: computed, written, released."""
    return [call for call in world.calls if "plan." in call or ".write" in call]


def entries(world: World, sink: str) -> list[int]:
    return world.checkpoint.sink_log(sink).list_batches()


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

    def stop(name: str) -> None:
        if name == "alerts":
            query.stop()

    world.plan.on_write = stop
    query.start()
    assert query.await_termination(PATIENCE)
    assert query.failure is None
    assert world.checkpoint.commit_log.list_batches() == []
    assert [entries(world, name) for name in ("lake", "alerts")] == [[0], []]


# The names.


def names_of(world: World) -> list[SinkNames | None]:
    log = world.checkpoint.sink_names
    return [log.get(number) for number in log.list_batches()]


def test_the_names_are_recorded_when_they_change() -> None:
    first = run(world_of("lake"))
    assert isinstance(first.files, MemoryFiles)
    again = run(world_of("lake", files=first.files, rows=3))
    more = run(world_of("new", "lake", files=first.files, rows=4))
    assert names_of(again) == [SinkNames(0, ("lake",)), SinkNames(2, ("new", "lake"))]
    assert more.plan.written == {"lake": {2: [3]}, "new": {2: [3]}}


def test_a_sink_that_is_added_does_not_get_the_planned_batch() -> None:
    files = crash("lake", "alerts", down=["alerts"])
    world = world_of("lake", "alerts", "new", files=files, rows=2)
    query = world.query(AvailableNowTrigger())
    query.start()
    query.await_termination(PATIENCE)
    assert world.plan.written == {"alerts": {0: [0, 1]}}
    [outcome] = [o for o in query.reporter.recent_progress[0].sink.outcomes if o.name == "new"]
    assert outcome.status is SinkStatus.NOT_DUE
    later = run(world_of("lake", "alerts", "new", files=files, rows=3))
    assert later.plan.written == {name: {1: [2]} for name in ("lake", "alerts", "new")}


def test_a_sink_that_is_gone_is_forgotten_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = crash("lake", "alerts", down=["alerts"])
    world = run(world_of("lake", files=files))
    assert world.plan.written == {}
    assert world.checkpoint.commit_log.list_batches() == [0]
    [warning] = [r.getMessage() for r in caplog.records if "no longer part" in r.getMessage()]
    assert warning.startswith(
        "The sink alerts is no longer part of the query and is forgotten. Batch 0, which it has "
        "not finished, is not written to it."
    )
    again = run(world_of("lake", "alerts", files=files, rows=3))
    assert again.plan.written == {"lake": {1: [2]}, "alerts": {1: [2]}}


def test_a_sink_that_is_removed_and_added_while_its_batch_is_planned_does_not_get_it() -> None:
    files = crash("lake", "alerts", "last", down=["alerts"])
    removed = world_of("lake", "last", files=files)
    removed.plan.on_write = failing("last")
    fails(removed, SinkFailedError)
    world = run(world_of("lake", "alerts", "last", files=files))
    assert world.plan.written == {"last": {0: [0, 1]}}


def test_a_rename_is_refused_with_the_remedy() -> None:
    files = crash("lake", "alerts", down=["alerts"])
    before = {name: dict(content) for name, content in files.directories.items()}
    text = fails(world_of("lake", "alarms", files=files), SinkRenamedError)
    assert '.to("alarms", ..., replaces="alerts")' in text
    assert files.directories == before


@pytest.mark.parametrize("down", ["alerts", "last"])
def test_a_sink_that_replaces_another_continues_where_it_stopped(down: str) -> None:
    files = crash("lake", "alerts", "last", down=[down])
    renamed = NamedSink("alarms", replaces="alerts")
    broken = world_of("lake", renamed, "last", files=files)
    broken.plan.on_write = failing("last")
    fails(broken, SinkFailedError)
    # Later it may be called by its new name alone.
    world = run(world_of("lake", "alarms", "last", files=files))
    assert world.plan.written == {"last": {0: [0, 1]}}
    assert broken.plan.written.keys() == ({"alarms"} if down == "alerts" else set())
    assert entries(world, "alarms") == [0]
    assert entries(world, "alerts") == []


def test_a_sink_that_is_replaced_beside_one_that_is_gone() -> None:
    files = crash("a", "b", "c", down=["b"])
    replacement = NamedSink("b2", replaces="b")
    fails(world_of("a", replacement, "new", files=files), SinkRenamedError)  # is it c?
    world = run(world_of("a", replacement, files=files))
    assert world.plan.written == {"b2": {0: [0, 1]}}


def test_a_planned_batch_without_recorded_names_goes_to_all_sinks() -> None:
    first = World()
    first.add_stream("a", range(2))
    first.plan.on_run = lambda: failing("x")("x")
    with pytest.raises(StreamFailedError):
        run(first)
    assert isinstance(first.files, MemoryFiles)
    world = run(world_of("lake", "alerts", files=first.files))
    assert world.plan.written == {"lake": {0: [0, 1]}, "alerts": {0: [0, 1]}}


# Entries that do not belong to the checkpoint.


@pytest.mark.parametrize("also_planned", [True, False])
def test_entries_of_batches_that_are_not_planned_are_refused(also_planned: bool) -> None:
    first = run(run(world_of("lake")))
    files = first.files
    run(world_of("lake", files=files, rows=3))  # type: ignore[arg-type]
    for batch in (1,) if also_planned else (0, 1):
        for log in ("offsets", "commits"):
            files.delete(f"{log}/{batch}")
    world = world_of("lake", files=files, rows=9)  # type: ignore[arg-type]
    text = fails(world, SinkAheadError)
    assert "The sink lake has an entry for batch 1" in text
    assert ("rewind CHECKPOINT --to 0" in text) is also_planned
    assert world.plan.written == {}


def test_an_entry_of_another_plan_is_refused() -> None:
    files = crash("lake", "alerts", down=["alerts"])
    files.delete("offsets/0")
    world = world_of("lake", "alerts", files=files)
    world.log_offsets(0, "1", timestamp_ms=77)
    assert "but for another plan of it" in fails(world, SinkAheadError)


def test_a_torn_entry_is_refused() -> None:
    files = crash("lake", "alerts", down=["alerts"])
    files.place(".penstock/sinks/lake/0", b"v1\n")
    assert "run again as planned" in fails(world_of("lake", "alerts", files=files), CheckpointError)
    files.place(".penstock/sinks/lake/0", b"v1\n{}")
    assert "another plan" in fails(world_of("lake", "alerts", files=files), CheckpointError)
    files.place(".penstock/sink-names/0", b'v1\n{"fromBatch":0,"sinks":7}')
    fails(world_of("lake", "alerts", files=files), MalformedLogError)
