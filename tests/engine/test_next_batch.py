"""Constructing the next batch."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from penstock.checkpoint import OffsetSeq, OffsetSeqMetadata
from penstock.engine.batch_context import BatchContext
from penstock.engine.log_context import TRACE
from penstock.engine.next_batch import construct_next_batch
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.read_limit import ReadLimit, ReadMaxRows
from penstock.engine.run_batch import run_batch
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import BatchRequest
from penstock.engine.settings import Settings
from penstock.engine.start_offsets import populate_start_offsets
from penstock.engine.stream_progress import StreamProgress
from penstock.engine.unique_sources import for_available_now
from penstock.engine.watermark import EventTimeStats
from penstock.errors import ConcurrentUpdateError, MissingBatchError
from tests.engine.numbers import NumberSource
from tests.engine.world import CONF, PATIENCE, World
from tests.memory_world.sources import Abilities


def first_batch(runtime: QueryRuntime) -> BatchContext:
    """Run the first batch of a new query."""
    context = populate_start_offsets(runtime)
    assert construct_next_batch(runtime, context)
    run_batch(runtime, context)
    return context.next()


# (1) (2) Offsets of the sources.


def test_the_available_offsets_are_those_of_the_sources() -> None:
    world = World()
    v1, v2 = world.add_source("v1", range(3)), world.add_stream("v2", range(5))
    context = BatchContext(batch_id=0)
    assert construct_next_batch(world.runtime(), context)
    assert context.end_offsets == {v1: LongOffset(2), v2: LongOffset(4)}
    assert context.latest_offsets == context.end_offsets
    assert context.start_offsets == {}


def test_a_source_without_data_has_no_offset() -> None:
    world = World()
    world.add_source("empty")
    full = world.add_source("full", range(3))
    context = BatchContext(batch_id=0)
    assert construct_next_batch(world.runtime(), context)
    assert context.end_offsets == {full: LongOffset(2)}
    entry = world.checkpoint.offset_log.get(0)
    assert entry is not None
    assert entry.offsets == (None, "2")


def test_admission_control_gets_the_start_and_the_limit() -> None:
    world = World()
    limited = Abilities(admission_control=True, limit=ReadMaxRows(2))
    stream = world.add_stream("a", range(10), limited)
    runtime = world.runtime()
    context = first_batch(runtime)
    assert construct_next_batch(runtime, context)
    assert world.plan.output == {0: [0, 1]}
    assert context.end_offsets == {stream: LongOffset(3)}
    assert context.latest_offsets == {stream: LongOffset(9)}
    asked = [call for call in world.calls if "latest_offset" in call]
    assert asked == ["a.latest_offset -1 MaxRows: 2", "a.latest_offset 1 MaxRows: 2"]


def test_a_v1_source_with_admission_control_starts_from_nothing() -> None:
    class Limited(NumberSource):
        supports_admission_control = True

        def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
            self.calls.append(f"latest_offset {start}")
            return None

    world = World()
    world.sources.append(Limited("a", [], world.calls))
    context = BatchContext(batch_id=0)
    assert not construct_next_batch(world.runtime(), context)
    assert world.calls == ["latest_offset None"]
    assert context.end_offsets == context.latest_offsets == {}


def test_a_stream_that_does_not_report_it_has_no_latest_offset() -> None:
    world = World()
    silent = Abilities(admission_control=True, reports_latest=False)
    stream = world.add_stream("a", range(3), silent)
    context = BatchContext(batch_id=0)
    construct_next_batch(world.runtime(), context)
    assert context.latest_offsets == {}
    assert context.end_offsets == {stream: LongOffset(2)}


def test_a_wrapped_source_is_recorded_as_itself() -> None:
    world = World()
    stream = world.add_stream("a", range(3))
    runtime = world.runtime()
    runtime.unique_sources = for_available_now([stream])
    stream.rows.append(3)
    context = BatchContext(batch_id=0)
    assert construct_next_batch(runtime, context)
    assert context.end_offsets == {stream: LongOffset(2)}
    assert context.latest_offsets == {stream: LongOffset(3)}


@pytest.mark.parametrize(
    ("abilities", "phase"),
    [(None, "getOffset"), (Abilities(), "latestOffset"), (Abilities(True), "latestOffset")],
)
def test_the_phase_is_named_after_the_kind_of_source(
    abilities: Abilities | None, phase: str
) -> None:
    world = World()
    if abilities is None:
        world.add_source("a", range(3))
    else:
        world.add_stream("a", range(3), abilities)
    runtime = world.runtime()
    runtime.reporter.start_trigger()
    context = populate_start_offsets(runtime)
    construct_next_batch(runtime, context)
    run_batch(runtime, context)
    runtime.reporter.record_trigger_offsets(*[StreamProgress()] * 3)
    runtime.reporter.finish_trigger(world.plan, context, has_new_data=True)
    progress = runtime.reporter.last_progress
    assert progress is not None
    assert set(progress.duration_ms) == {
        phase,
        "walCommit",
        "getBatch",
        "queryPlanning",
        "addBatch",
        "commitOffsets",
    }


# (3) Watermark and clock.


def test_the_metadata_are_the_watermark_and_the_time() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    runtime.watermark.set_watermark(77)
    world.clock.now_ms = 123_456
    construct_next_batch(runtime, context)
    assert context.metadata == OffsetSeqMetadata(77, 123_456, CONF)
    assert world.checkpoint.offset_log.metadata_of(0) == context.metadata


# (4) Whether there is a batch.


def test_without_new_data_there_is_no_batch_and_waiting_threads_are_woken() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime = world.runtime()
    context = first_batch(runtime)
    about_to_wait, woken = threading.Event(), threading.Event()

    def wait() -> None:
        with runtime.progress_lock:
            about_to_wait.set()
            if runtime.progress_lock.wait(PATIENCE):
                woken.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert about_to_wait.wait(PATIENCE)
    assert not construct_next_batch(runtime, context)
    waiter.join(PATIENCE)
    assert woken.is_set()
    assert runtime.no_new_data
    assert world.checkpoint.offset_log.list_batches() == [0]
    world.sources[0].rows.append(3)  # type: ignore[attr-defined]  # a number source
    assert construct_next_batch(runtime, context)
    assert not runtime.no_new_data


def test_an_offset_that_decreased_is_new_data_too() -> None:
    """The engine compares offsets for equality only; their order is known to the source alone."""
    world = World()
    source = world.add_source("a", range(3))
    context = BatchContext(batch_id=0, start_offsets=StreamProgress({source: LongOffset(9)}))
    assert construct_next_batch(world.runtime(), context)


def moved_watermark(request: BatchRequest) -> list[EventTimeStats]:
    return [EventTimeStats("w", 0, 1, max_ms=50)] if request.data else []


def stateful_world(settings: Settings | None = None) -> World:
    world = World(settings) if settings else World()
    world.add_source("a", range(3))
    world.plan.operators = ["w"]
    world.plan.has_state = True
    world.plan.stats_of = moved_watermark
    return world


def test_an_advanced_watermark_causes_a_batch_without_data() -> None:
    world = stateful_world()
    runtime = world.runtime()
    context = first_batch(runtime)
    assert construct_next_batch(runtime, context)
    assert not context.is_new_data_available
    assert context.metadata.batch_watermark_ms == 50
    run_batch(runtime, context)
    assert world.plan.requests[1].data == {}
    assert not construct_next_batch(runtime, context.next())


def test_batches_without_data_can_be_turned_off() -> None:
    world = stateful_world(Settings(no_data_batches=False))
    runtime = world.runtime()
    context = first_batch(runtime)
    assert not construct_next_batch(runtime, context)


def test_the_trace_record_has_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE)
    world = stateful_world()
    runtime = world.runtime()
    context = first_batch(runtime)
    construct_next_batch(runtime, context)
    traced = [r.getMessage() for r in caplog.records if r.levelname == "TRACE"]
    assert traced == [
        "noDataBatchesEnabled = true, lastExecutionRequiresAnotherBatch = false, "
        "isNewDataAvailable = true, shouldConstructNextBatch = true",
        "noDataBatchesEnabled = true, lastExecutionRequiresAnotherBatch = true, "
        "isNewDataAvailable = false, shouldConstructNextBatch = true",
    ]


# (5) The write-ahead log.


def test_the_batch_is_logged_before_the_previous_one_is_committed_to_sources(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    source = world.add_source("a", range(3))
    runtime = world.runtime()
    context = first_batch(runtime)
    source.rows.append(3)
    logged: list[list[int]] = []
    commit = source.commit

    def check(end: Offset) -> None:
        logged.append(world.checkpoint.offset_log.list_batches())
        commit(end)

    source.commit = check  # type: ignore[method-assign]
    assert construct_next_batch(runtime, context)
    assert logged == [[0, 1]]
    assert world.calls[-1] == "a.commit 2"
    assert f"Committed offsets for batch 1. Metadata {context.metadata}" in caplog.text


def test_the_first_batch_commits_nothing_to_sources() -> None:
    world = World()
    world.add_source("a", range(3))
    construct_next_batch(world.runtime(), BatchContext(batch_id=0))
    assert world.calls == ["a.get_offset"]


def test_the_status_shows_the_current_step() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime = world.runtime()
    seen: list[str] = []
    update = runtime.reporter.update_status

    def note(message: str | None = None, **rest: bool | None) -> None:
        seen.append(message or "")
        update(message, **rest)

    runtime.reporter.update_status = note  # type: ignore[method-assign]
    construct_next_batch(runtime, BatchContext(batch_id=0))
    assert seen == ["Getting offsets from Numbers[a]", "Writing offsets to log"]


def test_an_entry_of_another_run_is_a_concurrent_update() -> None:
    world = World()
    world.add_source("a", range(3))
    runtime = world.runtime()
    world.log_offsets(0, "1")
    with pytest.raises(ConcurrentUpdateError) as caught:
        construct_next_batch(runtime, BatchContext(batch_id=0))
    assert str(caught.value).startswith(
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. "
        "Multiple streaming jobs detected for 0"
    )
    assert world.checkpoint.root in str(caught.value)
    entry = world.checkpoint.offset_log.get(0)
    assert entry is not None
    assert entry.offsets == ("1",)


def test_a_missing_previous_batch_is_an_error() -> None:
    world = World()
    world.add_source("a", range(3))
    with pytest.raises(MissingBatchError, match=r"^batch 4 doesn't exist$"):
        construct_next_batch(world.runtime(), BatchContext(batch_id=5))


def test_entries_older_than_the_retained_ones_are_purged() -> None:
    world = World(Settings(min_batches_to_retain=2))
    source = world.add_source("a", range(1))
    runtime = world.runtime()
    context = first_batch(runtime)
    kept = []
    for number in range(1, 6):
        source.rows.append(number)
        assert construct_next_batch(runtime, context)
        kept.append(world.checkpoint.offset_log.list_batches())
        run_batch(runtime, context)
        context = context.next()
    assert kept == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert world.checkpoint.commit_log.list_batches() == [3, 4, 5]


def test_sources_with_names_are_logged_by_name() -> None:
    world = World()
    world.add_source("a")
    world.add_source("b", range(3))
    world.plan.names = ["left", "right"]
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    assert construct_next_batch(runtime, context)
    entry = world.checkpoint.offset_log.get(0)
    expected = OffsetSeq(("2",), replace(context.metadata), ("right",))
    assert entry == expected
