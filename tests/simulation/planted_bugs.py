"""Bugs that a re-implementation of the engine could have, to test the checker.

Each function plants one bug with pytest's monkeypatch, which removes it after the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.checkpoint import CheckpointDirectory, OffsetSeq
from penstock.checkpoint.known_files import KnownFiles
from penstock.engine import (
    micro_batch_execution,
    next_batch,
    run_batch,
    start_offsets,
    unique_sources,
)
from penstock.engine.batch_context import BatchContext
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.read_limit import ALL_AVAILABLE
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import BatchRequest
from tests.simulation.files import SimulatedFiles

Patch = pytest.MonkeyPatch


def _after(patch: Patch, module: Any, name: str, then: Callable[..., None]) -> None:
    """Call `then` after a function of the engine, with the same arguments."""
    original = getattr(module, name)

    def both(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        then(*args, **kwargs)
        return result

    patch.setattr(module, name, both)


def _after_resume(patch: Patch, then: Callable[[QueryRuntime, BatchContext], None]) -> None:
    """Call `then` with the first context of a run, to change it."""
    original = start_offsets.populate_start_offsets

    def populate(runtime: QueryRuntime) -> BatchContext:
        context = original(runtime)
        then(runtime, context)
        return context

    patch.setattr(micro_batch_execution, "populate_start_offsets", populate)


def commit_before_sink(patch: Patch) -> None:
    def run(runtime: QueryRuntime, context: BatchContext) -> None:
        data = run_batch._get_batches(runtime, context)
        previous = runtime.checkpoint.offset_log.metadata_of(context.batch_id - 1)
        request = BatchRequest(context.batch_id, context.metadata, previous, data, False)
        context.execution = runtime.plan.prepare(request)
        runtime.watermark.update_watermark(context.execution.event_time_stats())
        run_batch._commit(runtime, context)
        context.output_rows = context.execution.run()

    patch.setattr(micro_batch_execution, "run_batch", run)


def wal_after_run(patch: Patch) -> None:
    write, commit = next_batch._write_offsets, run_batch._commit

    def write_then_commit(runtime: QueryRuntime, context: BatchContext) -> None:
        write(runtime, context)
        commit(runtime, context)

    patch.setattr(next_batch, "_write_offsets", lambda runtime, context: None)
    patch.setattr(run_batch, "_commit", write_then_commit)


def offsets_requested_again_on_re_run(patch: Patch) -> None:
    def ask(runtime: QueryRuntime, context: BatchContext) -> None:
        if context.is_current_batch_constructed:
            next_batch._update_offsets(runtime, context)

    _after_resume(patch, ask)


def overwrite_instead_of_write_if_absent(patch: Patch) -> None:
    def create(self: SimulatedFiles, name: str, data: bytes) -> bool:
        fault = self._life.cross(f"create_{name.partition('/')[0]}")
        if fault is not None:
            self._before_creating(fault, name, data)
        self._world.create(self._life, name, data)
        return True

    patch.setattr(SimulatedFiles, "create_if_absent", create)


def checkpoint_not_missed(patch: Patch) -> None:
    """Missing directories are created at every write, and no file is expected to exist."""
    make_missing = SimulatedFiles.create_if_absent

    def create(self: SimulatedFiles, name: str, data: bytes) -> bool:
        self.make_directory(name.rpartition("/")[0])
        return make_missing(self, name, data)

    patch.setattr(SimulatedFiles, "create_if_absent", create)
    patch.setattr(KnownFiles, "require", lambda self: None)


def only_directories_missed(patch: Patch) -> None:
    patch.setattr(KnownFiles, "require", lambda self: None)


def only_the_id_missed(patch: Patch) -> None:
    remember = KnownFiles.remember

    def only_id(self: KnownFiles, kind: str, number: int, name: str, data: bytes) -> None:
        if kind == "metadata":
            remember(self, kind, number, name, data)

    patch.setattr(KnownFiles, "remember", only_id)


def log_of_sink_not_checked(patch: Patch) -> None:
    patch.setattr(start_offsets, "refuse_batches_only_the_sink_knows", lambda *args: None)


def logs_of_another_query_taken(patch: Patch) -> None:
    """The directory is replaced after the id was read and before the logs are read."""
    patch.setattr(CheckpointDirectory, "require_unchanged", lambda self: None)


def existing_commit_ignored(patch: Patch) -> None:
    def commit(runtime: QueryRuntime, context: BatchContext) -> None:
        assert context.execution is not None
        metadata = context.execution.commit_metadata(runtime.watermark.current_watermark)
        runtime.checkpoint.commit_log.add(context.batch_id, metadata)

    patch.setattr(run_batch, "_commit", commit)


def watermark_not_restored(patch: Patch) -> None:
    _after(
        patch,
        start_offsets,
        "_restore_metadata",
        lambda runtime, context, recorded: runtime.watermark.set_watermark(0),
    )


def watermark_of_commit_log_not_taken(patch: Patch) -> None:
    def forget(runtime: QueryRuntime, context: BatchContext, latest_batch_id: int) -> None:
        runtime.watermark.set_watermark(context.metadata.batch_watermark_ms)

    _after(patch, start_offsets, "_compare_with_commit_log", forget)


def timestamp_not_repeated(patch: Patch) -> None:
    def now(runtime: QueryRuntime, context: BatchContext) -> None:
        context.metadata = context.metadata.at(
            watermark_ms=context.metadata.batch_watermark_ms,
            timestamp_ms=runtime.clock.time_millis(),
        )

    _after_resume(patch, now)


def settings_not_frozen(patch: Patch) -> None:
    restore = start_offsets._restore_metadata

    def without_conf(runtime: QueryRuntime, context: BatchContext, recorded: Any) -> None:
        restore(runtime, context, replace(recorded, conf={}))

    patch.setattr(start_offsets, "_restore_metadata", without_conf)


def offsets_purged_too_eagerly(patch: Patch) -> None:
    def purge(runtime: QueryRuntime, context: BatchContext) -> None:
        runtime.checkpoint.offset_log.purge(context.batch_id)

    patch.setattr(next_batch, "_purge", purge)


def commits_purged_too_eagerly(patch: Patch) -> None:
    def purge(runtime: QueryRuntime, context: BatchContext) -> None:
        runtime.checkpoint.commit_log.purge(context.batch_id)

    patch.setattr(next_batch, "_purge", purge)


def one_batch_too_few_retained(patch: Patch) -> None:
    def purge(runtime: QueryRuntime, context: BatchContext) -> None:
        retained = runtime.session.settings.min_batches_to_retain - 1
        runtime.checkpoint.offset_log.purge(context.batch_id - retained)

    patch.setattr(next_batch, "_purge", purge)


def source_committed_too_early(patch: Patch) -> None:
    def commit_next(runtime: QueryRuntime, context: BatchContext) -> None:
        for source, offset in context.end_offsets.items():
            source.commit(offset)

    patch.setattr(next_batch, "_commit_sources", commit_next)


def batch_id_incremented_on_failure(patch: Patch) -> None:
    def increment(runtime: QueryRuntime, context: BatchContext) -> None:
        context.batch_id += context.is_current_batch_constructed

    _after_resume(patch, increment)


def planned_batch_skipped(patch: Patch) -> None:
    def skip(runtime: QueryRuntime, context: BatchContext) -> None:
        if context.is_current_batch_constructed:
            context.batch_id += 1
            context.is_current_batch_constructed = False
            context.start_offsets = context.start_offsets + context.end_offsets

    _after_resume(patch, skip)


def planned_batch_decided_anew(patch: Patch) -> None:
    def decide(runtime: QueryRuntime, context: BatchContext) -> None:
        if context.is_current_batch_constructed:
            runtime.checkpoint.offset_log._remove([context.batch_id])
            context.is_current_batch_constructed = False

    _after_resume(patch, decide)


def commit_log_ignored(patch: Patch) -> None:
    patch.setattr(start_offsets, "_compare_with_commit_log", lambda *args: None)


def start_offsets_lost(patch: Patch) -> None:
    second_latest = start_offsets._second_latest

    def without(runtime: QueryRuntime, latest_batch_id: int) -> OffsetSeq:
        entry = second_latest(runtime, latest_batch_id)
        return replace(entry, offsets=tuple(None for _ in entry.offsets))

    patch.setattr(start_offsets, "_second_latest", without)


def v1_sources_without_last_batch(patch: Patch) -> None:
    patch.setattr(start_offsets, "_get_last_batch_again", lambda *args, **kwargs: None)


def no_data_batches_forgotten(patch: Patch) -> None:
    def only_with_data(runtime: QueryRuntime, context: BatchContext) -> bool:
        return context.is_new_data_available

    patch.setattr(next_batch, "_should_construct", only_with_data)


def batch_without_reason(patch: Patch) -> None:
    should_construct = next_batch._should_construct

    def once_more(runtime: QueryRuntime, context: BatchContext) -> bool:
        return should_construct(runtime, context) or context.batch_id == 1

    patch.setattr(next_batch, "_should_construct", once_more)


def once_heeds_limits(patch: Patch) -> None:
    def with_limit(source: DataStream) -> UniqueSource:
        return UniqueSource(source, source.default_read_limit(), source)

    patch.setattr(unique_sources, "_without_limit", with_limit)


def limits_ignored(patch: Patch) -> None:
    ask = next_batch._offsets_of

    def without_limit(runtime: QueryRuntime, context: BatchContext, unique: UniqueSource) -> Any:
        return ask(runtime, context, UniqueSource(unique.stream, ALL_AVAILABLE, unique.original))

    patch.setattr(next_batch, "_offsets_of", without_limit)


def available_now_runs_on(patch: Patch) -> None:
    def moving(source: DataStream) -> UniqueSource:
        return UniqueSource(source, source.default_read_limit(), source)

    patch.setattr(unique_sources, "_for_available_now", moving)


def newest_data_instead_of_logged(patch: Patch) -> None:
    def newest(runtime: QueryRuntime, context: BatchContext) -> dict[DataStream, object]:
        data: dict[DataStream, object] = {}
        for source, end in context.end_offsets.items():
            start = context.start_offsets.get(source)
            data[source] = source.get_batch(
                start, source.latest_offset(start, ALL_AVAILABLE) or end
            )
        return data

    patch.setattr(run_batch, "_get_batches", newest)


def source_error_swallowed(patch: Patch) -> None:
    def get_batches(runtime: QueryRuntime, context: BatchContext) -> dict[DataStream, object]:
        data: dict[DataStream, object] = {}
        for source, end in context.end_offsets.items():
            start = context.start_offsets.get(source)
            if start != end:
                try:
                    data[source] = source.get_batch(start, end)
                except Exception:
                    continue
        return data

    patch.setattr(run_batch, "_get_batches", get_batches)


def log_error_swallowed(patch: Patch) -> None:
    write = next_batch._write_offsets

    def write_if_possible(runtime: QueryRuntime, context: BatchContext) -> None:
        try:
            write(runtime, context)
        except OSError:
            return

    patch.setattr(next_batch, "_write_offsets", write_if_possible)


def commit_on_stop(patch: Patch) -> None:
    """A query that is stopped commits the batch that it was running."""
    run = run_batch.run_batch

    def run_and_commit(runtime: QueryRuntime, context: BatchContext) -> None:
        try:
            run(runtime, context)
        except Exception:
            if context.execution is not None:
                run_batch._commit(runtime, context)
            raise

    patch.setattr(micro_batch_execution, "run_batch", run_and_commit)


def batch_before_not_passed_on(patch: Patch) -> None:
    patch.setattr(
        "penstock.checkpoint.offset_seq.OffsetSeqLog.metadata_of", lambda self, batch_id: None
    )
