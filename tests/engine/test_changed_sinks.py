"""Restarts of queries with many sinks: other names, and entries that do not fit."""

from __future__ import annotations

import pytest

from penstock.checkpoint.sink_entries import SinkNames
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink, SinkStatus
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import (
    CheckpointError,
    MalformedLogError,
    SinkAheadError,
    SinkFailedError,
    SinkRenamedError,
    StreamFailedError,
)
from tests.engine.sink_worlds import crash, entries, failing, fails, run, world_of
from tests.engine.world import PATIENCE, RecordingFaults, StrikeError, World
from tests.memory_world.files import MemoryFiles

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


@pytest.mark.parametrize("point", [FaultPoint.AFTER_OFFSET_LOG, FaultPoint.BEFORE_NAMED_SINK])
def test_a_sink_that_is_added_gets_the_planned_batch_if_that_is_planned_anew(
    point: FaultPoint,
) -> None:
    files = crash("lake", "alerts", down=["lake"])
    added = world_of("lake", "alerts", "new", files=files)
    added.plan.on_write = failing("lake")
    fails(added, SinkFailedError)
    files.delete("offsets/0")
    fails(
        world_of("lake", "alerts", "new", files=files, rows=4),
        StrikeError,
        RecordingFaults((point, 0)),
    )
    world = run(world_of("lake", "alerts", "new", files=files, rows=4))
    assert world.plan.written == {name: {0: [0, 1, 2, 3]} for name in ("lake", "alerts", "new")}
    assert names_of(world)[1:] == [
        SinkNames(1, ("lake", "alerts", "new")),
        SinkNames(0, ("lake", "alerts", "new")),
    ]


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
