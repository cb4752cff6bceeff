"""The first batch of a run, for every state of the checkpoint."""

from __future__ import annotations

import pytest

from penstock.checkpoint import CommitMetadata, OffsetSeq, OffsetSeqMetadata
from penstock.engine.next_batch import construct_next_batch
from penstock.engine.offsets import LongOffset
from penstock.engine.settings import Settings
from penstock.engine.start_offsets import populate_start_offsets
from penstock.errors import (
    CheckpointNotEmptyError,
    ExecutionError,
    MissingBatchError,
    SourceCountError,
    SourceEvolutionError,
    UnfinishedRepartitionError,
)
from tests.engine.world import CONF, World
from tests.memory_world.sources import Abilities


@pytest.fixture(autouse=True)
def all_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")


# A new query.


def test_an_empty_log_starts_a_new_query_at_batch_0(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_source("a", [1, 2])
    context = populate_start_offsets(world.runtime())
    assert context.batch_id == 0
    assert not context.is_current_batch_constructed
    assert context.start_offsets == {}
    assert context.end_offsets == {}
    assert context.metadata == OffsetSeqMetadata(0, 0, CONF)
    assert "Starting new streaming query." in caplog.text
    assert "Stream started from {}" in caplog.text
    assert world.calls == []


def test_a_new_query_with_named_sources_has_a_source_metadata_field() -> None:
    world = World()
    world.add_source("a")
    world.plan.names = ["a"]
    context = populate_start_offsets(world.runtime())
    assert context.metadata.further == {"sourceMetadataInfo": {}}


def test_a_new_query_on_anothers_state_is_refused() -> None:
    world = World()
    world.files.make_directory("state/0")
    world.files.create_if_absent("state/0/metadata", b"x")
    with pytest.raises(CheckpointNotEmptyError, match="should be empty on batch 0"):
        populate_start_offsets(world.runtime())


def test_the_check_of_a_new_checkpoint_can_be_turned_off() -> None:
    world = World(Settings(verify_new_checkpoint=False))
    world.files.make_directory("state/0")
    world.files.create_if_absent("state/0/metadata", b"x")
    assert populate_start_offsets(world.runtime()).batch_id == 0


# The latest batch is not committed.


def test_an_uncommitted_first_batch_runs_again_as_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    source = world.add_source("a", range(10))
    world.log_offsets(0, "4", watermark_ms=7, timestamp_ms=123)
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    assert context.batch_id == 0
    assert context.is_current_batch_constructed
    assert context.start_offsets == {}
    assert context.end_offsets == {source: LongOffset(4)}
    assert context.metadata == OffsetSeqMetadata(7, 123, CONF)
    assert runtime.watermark.current_watermark == 7
    assert "no commit log present" in caplog.text
    assert (
        "Resuming at batch 0 with committed offsets {} and available offsets {Numbers[a]: 4}"
    ) in caplog.text


def test_an_uncommitted_batch_starts_where_the_one_before_it_ends() -> None:
    world = World()
    source = world.add_stream("a", range(10))
    world.log_offsets(6, "3")
    world.log_offsets(7, "5", timestamp_ms=77)
    world.log_commit(6, 50)
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    assert (context.batch_id, context.is_current_batch_constructed) == (7, True)
    assert context.start_offsets == {source: LongOffset(3)}
    assert context.end_offsets == {source: LongOffset(5)}
    assert context.metadata.batch_timestamp_ms == 77
    assert world.plan.resumed_after == CommitMetadata(50)


def test_v1_sources_without_data_in_an_uncommitted_batch_get_get_batch() -> None:
    world = World()
    world.add_source("idle", range(10))
    world.add_source("busy", range(10))
    world.add_source("empty")
    world.add_source("fresh", range(10))
    world.add_stream("v2", range(10))
    world.log_offsets(0, "3", "3", None, None, "3")
    world.log_offsets(1, "3", "5", None, "2", "3")
    world.log_commit(0)
    populate_start_offsets(world.runtime())
    assert world.calls == ["idle.get_batch 3 3", "fresh.get_batch None 2"]


def test_an_uncommitted_batch_keeps_its_watermark_and_not_that_of_the_commit() -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(0, "3")
    world.log_offsets(1, "5", watermark_ms=20)
    world.log_commit(0, 30)
    runtime = world.runtime()
    assert populate_start_offsets(runtime).metadata.batch_watermark_ms == 20
    assert runtime.watermark.current_watermark == 20


# The latest batch is committed.


def test_a_committed_batch_is_followed_by_one_that_is_not_constructed() -> None:
    world = World()
    v1, v2 = world.add_source("v1", range(10)), world.add_stream("v2", range(10))
    world.log_offsets(0, "3", "3")
    world.log_offsets(1, "5", "6", watermark_ms=20)
    world.log_commit(0)
    world.log_commit(1, 30)
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    assert (context.batch_id, context.is_current_batch_constructed) == (2, False)
    assert context.start_offsets == {v1: LongOffset(5), v2: LongOffset(6)}
    assert context.end_offsets == context.start_offsets
    assert runtime.watermark.current_watermark == 30


def test_only_v1_sources_get_get_batch_for_a_committed_batch_and_once() -> None:
    world = World()
    world.add_source("v1", range(10))
    world.add_stream("v2", range(10))
    world.log_offsets(0, "5", "6")
    world.log_commit(0)
    populate_start_offsets(world.runtime())
    assert world.calls == ["v1.get_batch None 5"]


def test_the_watermark_is_the_larger_of_the_two_logs() -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(0, "5", watermark_ms=40)
    world.log_commit(0, 30)
    runtime = world.runtime()
    populate_start_offsets(runtime)
    assert runtime.watermark.current_watermark == 40


# Logs that do not match.


def test_a_missing_second_latest_batch_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(7, "5")
    with pytest.raises(MissingBatchError, match=r"^batch 6 doesn't exist") as caught:
        populate_start_offsets(world.runtime())
    assert "offsets/6 is needed to run batch 7" in str(caught.value)
    assert "The offset log for batch 6 doesn't exist, which is required" in caplog.text


def test_a_commit_log_that_trails_by_more_than_one_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(6, "3")
    world.log_offsets(7, "5")
    world.log_commit(4)
    context = populate_start_offsets(world.runtime())
    assert (context.batch_id, context.is_current_batch_constructed) == (7, True)
    assert (
        "Batch completion log latest batch id is 4, which is not trailing batchid 7 by one"
        in caplog.text
    )


def test_a_commit_beyond_the_offset_log_is_refused() -> None:
    world = World()
    world.add_source("a", range(10))
    world.log_offsets(0, "5")
    world.log_commit(1)
    with pytest.raises(MissingBatchError, match="batch 1 doesn't exist in the offset log"):
        populate_start_offsets(world.runtime())
    assert world.calls == []


def test_another_number_of_sources_is_refused() -> None:
    world = World()
    world.add_source("a", range(10))
    world.add_source("b", range(10))
    world.log_offsets(0, "5")
    with pytest.raises(SourceCountError, match=r"There are \[1\] sources in the checkpoint"):
        populate_start_offsets(world.runtime())


# The format of the log.


def log_by_name(world: World, **offsets: str) -> None:
    metadata = OffsetSeqMetadata(0, 0, CONF, {"sourceMetadataInfo": {}})
    names = tuple(name.removeprefix("_") for name in offsets)
    world.checkpoint.offset_log.make_directory()
    world.checkpoint.offset_log.add(0, OffsetSeq(tuple(offsets.values()), metadata, names))
    world.log_commit(0)


def next_entry(world: World) -> OffsetSeq:
    """The entry that a restart logs next."""
    runtime = world.runtime()
    assert construct_next_batch(runtime, populate_start_offsets(runtime))
    entry = world.checkpoint.offset_log.get(1)
    assert entry is not None
    return entry


def test_a_log_by_position_keeps_its_format_if_the_sources_have_names() -> None:
    world = World()
    world.add_stream("a", range(10))
    world.plan.names = ["orders"]
    world.log_offsets(0, "5")
    world.log_commit(0)
    entry = next_entry(world)
    assert (entry.version, entry.offsets) == (1, ("9",))


def test_a_log_by_name_keeps_its_format_if_the_sources_have_none() -> None:
    world = World()
    world.add_stream("a", range(10))
    world.add_stream("b", range(10))
    log_by_name(world, _1="5", _0="9")
    entry = next_entry(world)
    assert (entry.version, entry.source_ids, entry.offsets) == (2, ("0", "1"), ("9", "9"))
    assert entry.metadata is not None
    assert entry.metadata.further == {"sourceMetadataInfo": {}}


def test_a_log_by_name_takes_a_new_source_from_its_beginning() -> None:
    world = World()
    added, known = world.add_stream("new", range(3)), world.add_stream("known", range(10))
    world.plan.names = ["users", "orders"]
    log_by_name(world, orders="9", dropped="1")
    context = populate_start_offsets(world.runtime())
    assert context.start_offsets == {known: LongOffset(9)}
    assert next_entry(world).source_ids == ("users", "orders")
    assert added not in context.start_offsets


def test_named_sources_are_logged_by_position_where_the_new_log_has_no_names() -> None:
    world = World()
    world.add_stream("a", range(10))
    world.plan.names, world.plan.names_new = ["orders"], False
    runtime = world.runtime()
    assert construct_next_batch(runtime, populate_start_offsets(runtime))
    entry = world.checkpoint.offset_log.get(0)
    assert entry is not None
    assert (entry.version, entry.offsets) == (1, ("9",))


def test_source_evolution_is_refused_on_a_log_by_position() -> None:
    world = World()
    world.add_stream("a", range(10))
    world.plan.names = ["orders"]
    world.plan.refuses_positions = True
    world.log_offsets(0, "5")
    world.log_commit(0)
    with pytest.raises(SourceEvolutionError, match="offset log format version 1"):
        populate_start_offsets(world.runtime())


# Repartitioning of the state.


def repartitioned(world: World) -> None:
    """A checkpoint whose batch 1 is an unfinished repartitioning of the state."""
    world.add_stream("a", range(10))
    for batch_id, partitions in enumerate("24"):
        conf = {**CONF, "spark.sql.shuffle.partitions": partitions}
        world.log_offsets(batch_id, "5", conf=conf)
    world.log_commit(0)


def test_an_unfinished_repartitioning_is_not_run_as_a_batch() -> None:
    world = World()
    repartitioned(world)
    with pytest.raises(
        UnfinishedRepartitionError,
        match=r"The latest batch 1 is for an unfinished .* last committed batch is: 0",
    ):
        populate_start_offsets(world.runtime())


def test_a_query_continues_after_a_finished_repartitioning() -> None:
    world = World()
    repartitioned(world)
    world.log_commit(1)
    assert populate_start_offsets(world.runtime()).batch_id == 2


def test_the_check_of_an_unfinished_repartitioning_can_be_turned_off() -> None:
    world = World(settings=Settings(check_unfinished_repartition=False))
    repartitioned(world)
    assert populate_start_offsets(world.runtime()).batch_id == 1


# Settings.


def test_recorded_settings_override_those_of_the_session() -> None:
    world = World()
    world.add_source("a", range(10))
    world.plan.operators = ["x", "y"]
    recorded = {**CONF, "spark.sql.streaming.multipleWatermarkPolicy": "max", "other": "1"}
    world.log_offsets(0, "5", conf=recorded)
    runtime = world.runtime()
    context = populate_start_offsets(runtime)
    assert context.metadata.conf == recorded
    assert world.session.watermark_policy == "max"
    assert runtime.watermark.operator_watermarks == {"x": None, "y": None}


def test_an_entry_without_metadata_takes_the_settings_of_the_session() -> None:
    world = World()
    world.add_source("a", range(10))
    world.checkpoint.offset_log.make_directory()
    world.checkpoint.offset_log.add(0, OffsetSeq(("5",)))
    context = populate_start_offsets(world.runtime())
    assert context.metadata == OffsetSeqMetadata(0, 0, CONF)


# Latest seen offsets.


def test_sources_that_accept_it_get_the_latest_offset_of_the_log() -> None:
    world = World()
    told = world.add_stream("told", range(10), Abilities(latest_seen=True))
    world.sources.append(told)
    empty = world.add_stream("empty", [], Abilities(latest_seen=True))
    plain = world.add_stream("plain", range(10))
    world.log_offsets(0, "5", "5", None, "5")
    populate_start_offsets(world.runtime())
    assert told.latest_seen == LongOffset(5)
    assert empty.latest_seen is None
    assert plain.latest_seen is None


def test_a_new_query_sets_no_latest_seen_offset() -> None:
    world = World()
    stream = world.add_stream("a", range(10), Abilities(latest_seen=True))
    populate_start_offsets(world.runtime())
    assert stream.latest_seen is None


def test_a_v1_source_cannot_accept_the_latest_offset() -> None:
    world = World()
    source = world.add_source("a", range(10))
    source.abilities = Abilities(latest_seen=True)
    with pytest.raises(
        ExecutionError, match=r"not supported with DSv1 streaming source: Numbers\[a\]"
    ):
        populate_start_offsets(world.runtime())
