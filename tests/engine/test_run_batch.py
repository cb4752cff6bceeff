"""Running a constructed batch."""

from __future__ import annotations

import pytest

from penstock.checkpoint import CommitMetadata, OffsetSeqMetadata
from penstock.engine.batch_context import BatchContext
from penstock.engine.offsets import LongOffset
from penstock.engine.run_batch import run_batch
from penstock.engine.runtime import QueryRuntime
from penstock.engine.stream_progress import StreamProgress
from penstock.engine.watermark import EventTimeStats
from penstock.errors import ConcurrentUpdateError
from tests.engine.world import World


def decided(world: World, batch_id: int = 0) -> tuple[QueryRuntime, BatchContext]:
    """A batch with all rows of the sources; the first source starts after row 0."""
    runtime = world.runtime()
    first = world.sources[0]
    ends = {source: LongOffset(2) for source in world.sources}
    context = BatchContext(
        batch_id=batch_id,
        start_offsets=StreamProgress({first: LongOffset(0)}),
        end_offsets=StreamProgress(ends),
        metadata=OffsetSeqMetadata(5, 6, {"c": "d"}),
        is_current_batch_constructed=True,
    )
    return runtime, context


def test_the_steps_are_taken_in_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    world = World()
    world.add_source("a", range(3))
    world.add_stream("b", range(10, 13))
    runtime, context = decided(world)
    run_batch(runtime, context)
    assert world.calls == [
        "a.get_batch 0 2",
        "b.get_batch None 2",
        "plan.prepare 0",
        "plan.run 0",
    ]
    assert world.plan.output == {0: [1, 2, 10, 11, 12]}
    messages = [r.getMessage() for r in caplog.records if r.name == "penstock.engine.run_batch"]
    assert messages == [
        "Running batch 0",
        "Retrieving data from Numbers[a]: 0 -> 2",
        "Retrieving data from Numbers[b]: None -> 2",
        "Completed batch 0",
    ]


def test_get_batch_is_not_called_for_a_source_without_new_data() -> None:
    world = World()
    idle = world.add_source("idle", range(3))
    busy = world.add_source("busy", range(3))
    runtime, context = decided(world)
    context.start_offsets = StreamProgress({idle: LongOffset(2)})
    run_batch(runtime, context)
    assert list(world.plan.requests[0].data) == [busy]


def test_the_plan_gets_what_was_recorded() -> None:
    world = World()
    world.add_source("a", range(3))
    world.log_offsets(6, "0", watermark_ms=3, timestamp_ms=4)
    runtime, context = decided(world, batch_id=7)
    run_batch(runtime, context)
    [request] = world.plan.requests
    assert request.batch_id == 7
    assert request.metadata == OffsetSeqMetadata(5, 6, {"c": "d"})
    assert request.previous_metadata is not None
    assert request.previous_metadata.batch_timestamp_ms == 4
    assert request.is_first_in_run


def test_the_first_batch_ever_has_none_before_it() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime, context = decided(world)
    run_batch(runtime, context)
    assert world.plan.requests[0].previous_metadata is None


def test_a_batch_after_another_of_this_run_is_not_the_first() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime, context = decided(world)
    run_batch(runtime, context)
    following = context.next()
    run_batch(runtime, following)
    assert following.last_execution is context.execution
    assert not world.plan.requests[1].is_first_in_run


@pytest.mark.parametrize(("counts", "expected"), [(True, 2), (False, None)])
def test_the_rows_of_the_sink_are_kept_if_it_counts(counts: bool, expected: int | None) -> None:
    world = World()
    world.add_source("a", range(3))
    world.plan.counts_rows = counts
    runtime, context = decided(world)
    run_batch(runtime, context)
    assert context.output_rows == expected


def test_the_commit_has_the_watermark_after_the_batch() -> None:
    world = World()
    world.add_source("a", range(3))
    world.plan.operators = ["w"]
    world.plan.stats_of = lambda request: [EventTimeStats("w", 10, 1, max_ms=110)]
    runtime, context = decided(world)
    run_batch(runtime, context)
    assert world.checkpoint.commit_log.get(0) == CommitMetadata(100)
    assert context.metadata.batch_watermark_ms == 5


def test_the_committed_offsets_advance_with_the_commit() -> None:
    world = World()
    source = world.add_source("a", range(3))
    runtime, context = decided(world)
    run_batch(runtime, context)
    assert context.next().start_offsets == {source: LongOffset(2)}


def test_a_batch_that_fails_is_not_committed() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime, context = decided(world)

    def fail() -> None:
        raise RuntimeError("no disk")

    world.plan.on_run = fail
    with pytest.raises(RuntimeError, match="no disk"):
        run_batch(runtime, context)
    assert world.checkpoint.commit_log.list_batches() == []


def test_a_commit_of_another_run_is_a_concurrent_update() -> None:
    world = World()
    world.add_source("a", range(3))
    world.log_commit(0, 33)
    runtime, context = decided(world)
    with pytest.raises(ConcurrentUpdateError, match="Multiple streaming jobs detected for 0"):
        run_batch(runtime, context)
    assert world.checkpoint.commit_log.get(0) == CommitMetadata(33)
