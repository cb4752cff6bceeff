"""Constructs the next batch and writes it to the offset log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from penstock.engine.batch_context import BatchContext
from penstock.engine.concurrent_runs import concurrent_update
from penstock.engine.data_stream import DataStream, MicroBatchStream, Source, UniqueSource
from penstock.engine.faults import FaultPoint
from penstock.engine.hooks import HookPoint
from penstock.engine.log_context import TRACE
from penstock.engine.offsets import Offset
from penstock.engine.runtime import QueryRuntime
from penstock.errors import MissingBatchError

_logger = logging.getLogger(__name__)


def construct_next_batch(runtime: QueryRuntime, context: BatchContext) -> bool:
    """Construct the next batch and write it to the offset log. Returns whether there is one.

    1. Get from every source its next offset within the read limit, and its latest offset; nothing
       if the trigger does not admit new data yet.
    2. These become the available and the latest offsets.
    3. The batch's metadata are the current watermark and the current time.
    4. A batch is due if there is new data, or if stateful operators need one without data.
    5. If it is due, write it to the offset log, then commit the previous batch to the sources and
       purge old log entries.

    Holds `progress_lock` throughout, so `process_all_available` cannot start waiting in between: a
    thread that starts waiting can rely on every source being queried once more.
    """
    with runtime.progress_lock:
        # (1) (2)
        backlog = _backlog(runtime, context)
        admitted = runtime.admission is None or runtime.admission.admits(backlog)
        if admitted:
            _update_offsets(runtime, context)
            context.pace = {} if runtime.pacing is None else runtime.pacing.states()
        # (3)
        context.metadata = context.metadata.at(
            watermark_ms=runtime.watermark.current_watermark,
            timestamp_ms=runtime.clock.time_millis(),
        )
        # (4)
        should_construct = _should_construct(runtime, context)
        # (5)
        if should_construct:
            runtime.reporter.update_status("Writing offsets to log")
            with runtime.reporter.report_time_taken("walCommit"):
                _write_offsets(runtime, context)
                _commit_sources(runtime, context)
                _purge(runtime, context)
            runtime.no_new_data = False
        else:
            runtime.no_new_data = admitted or not _has_backlog(backlog)
            runtime.progress_lock.notify_all()
        return should_construct


def _backlog(runtime: QueryRuntime, context: BatchContext) -> list[int | None]:
    """The number of rows that each source has to read, None if it is not known.

    Empty if the trigger does not need it.
    """
    if runtime.admission is None:
        return []
    sources = [unique.original for unique in runtime.unique_sources]
    return [source.backlog_rows(_start_offset(context, source)) for source in sources]


def _has_backlog(backlog: Sequence[int | None]) -> bool:
    """Whether a source has rows to read, or may have."""
    return any(rows != 0 for rows in backlog)


def _update_offsets(runtime: QueryRuntime, context: BatchContext) -> None:
    runtime.faults.reach(FaultPoint.BEFORE_LATEST_OFFSET, context.batch_id)
    available: dict[DataStream, Offset] = {}
    latest: dict[DataStream, Offset] = {}
    for unique in runtime.unique_sources:
        next_offset, recent_offset = _offsets_of(runtime, context, unique)
        if next_offset is not None:
            available[unique.original] = next_offset
        if recent_offset is not None:
            latest[unique.original] = recent_offset
    context.end_offsets = context.end_offsets + available
    context.latest_offsets = context.latest_offsets + latest
    runtime.faults.reach(FaultPoint.AFTER_LATEST_OFFSET, context.batch_id)


def _offsets_of(
    runtime: QueryRuntime, context: BatchContext, unique: UniqueSource
) -> tuple[Offset | None, Offset | None]:
    """The end of the source's next batch, and the end of its available data."""
    stream = unique.stream
    runtime.reporter.update_status(f"Getting offsets from {stream}")
    if stream.supports_admission_control:
        with runtime.reporter.report_time_taken("latestOffset"):
            start = _start_offset(context, unique.original)
            return stream.latest_offset(start, unique.limit), stream.report_latest_offset()
    phase = "getOffset" if isinstance(stream, Source) else "latestOffset"
    with runtime.reporter.report_time_taken(phase):
        offset = stream.latest_offset(None, unique.limit)
        return offset, offset


def _start_offset(context: BatchContext, stream: DataStream) -> Offset | None:
    """The start of the next batch; for a V2 stream before its first batch, its initial offset."""
    committed = context.start_offsets.get(stream)
    if committed is None and isinstance(stream, MicroBatchStream):
        return stream.initial_offset()
    return committed


def _should_construct(runtime: QueryRuntime, context: BatchContext) -> bool:
    no_data_batches = runtime.session.settings.no_data_batches
    last = context.last_execution
    requires_another = (
        no_data_batches and last is not None and last.should_run_another_batch(context.metadata)
    )
    has_data = context.is_new_data_available
    should_construct = has_data or requires_another
    if _logger.isEnabledFor(TRACE):
        flags = no_data_batches, requires_another, has_data, should_construct
        _logger.log(
            TRACE,
            "noDataBatchesEnabled = %s, lastExecutionRequiresAnotherBatch = %s, "
            "isNewDataAvailable = %s, shouldConstructNextBatch = %s",
            *(str(flag).lower() for flag in flags),
        )
    return should_construct


def _write_offsets(runtime: QueryRuntime, context: BatchContext) -> None:
    """Write the entry of the offset log. Once it exists, every run of this batch uses it.

    The batch is then constructed, also if a later step fails.
    """
    entry = context.end_offsets.to_offset_seq(
        runtime.plan.sources, context.metadata, runtime.source_ids
    )
    runtime.faults.reach(FaultPoint.BEFORE_OFFSET_LOG, context.batch_id)
    if not runtime.checkpoint.offset_log.add(context.batch_id, entry):
        raise concurrent_update(runtime, context.batch_id)
    context.is_current_batch_constructed = True
    runtime.faults.reach(FaultPoint.AFTER_OFFSET_LOG, context.batch_id)
    runtime.call_hooks(HookPoint.AFTER_WAL, context)
    _logger.info("Committed offsets for batch %s. Metadata %s", context.batch_id, context.metadata)


def _commit_sources(runtime: QueryRuntime, context: BatchContext) -> None:
    """Commit the previous batch to the sources: they may discard its data."""
    if context.batch_id == 0:
        return
    if runtime.checkpoint.offset_log.get(context.batch_id - 1) is None:
        raise MissingBatchError(f"batch {context.batch_id - 1} doesn't exist")
    runtime.faults.reach(FaultPoint.BEFORE_SOURCE_COMMIT, context.batch_id)
    # This batch starts where the previous one ends.
    for source, offset in context.start_offsets.items():
        source.commit(offset)
    runtime.faults.reach(FaultPoint.AFTER_SOURCE_COMMIT, context.batch_id)


def _purge(runtime: QueryRuntime, context: BatchContext) -> None:
    """Remove log entries older than `minBatchesToRetain`."""
    retained = runtime.session.settings.min_batches_to_retain
    if retained < context.batch_id:
        threshold = context.batch_id - retained
        _logger.debug("Purging metadata at threshold=%s", threshold)
        runtime.faults.reach(FaultPoint.BEFORE_PURGE, context.batch_id)
        between = partial(runtime.faults.reach, FaultPoint.BETWEEN_PURGES, context.batch_id)
        sinks = runtime.sinks.logs.values() if runtime.sinks is not None else ()
        runtime.checkpoint.purge(threshold, between, sinks)
        runtime.faults.reach(FaultPoint.AFTER_PURGE, context.batch_id)
