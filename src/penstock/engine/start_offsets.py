"""Finds the first batch of a run: batch 0, or the one that follows from the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from penstock.checkpoint import OffsetSeq, OffsetSeqMetadata
from penstock.engine.batch_context import BatchContext
from penstock.engine.data_stream import Source
from penstock.engine.faults import FaultPoint
from penstock.engine.read_limit import ALL_AVAILABLE
from penstock.engine.restart_rules import (
    refuse_batches_only_the_sink_knows,
    refuse_names_of_sources,
    refuse_unfinished_repartition,
)
from penstock.engine.runtime import QueryRuntime
from penstock.engine.sink_restart import resume_sinks
from penstock.engine.stream_progress import StreamProgress, positions_of
from penstock.engine.watermark import WatermarkTracker
from penstock.errors import ExecutionError, MissingBatchError

_logger = logging.getLogger(__name__)


def populate_start_offsets(runtime: QueryRuntime) -> BatchContext:
    """The context of the first batch of this run. Called once, before any batch.

    1. Without an entry in the offset log this is a new query, at batch 0.
    2. Otherwise the latest entry N is a batch that has to run again as recorded, with its offsets,
       settings, watermark and timestamp. It starts where entry N-1 ends.
    3. If N is in the commit log, the run continues with N+1, which is not constructed yet. V1
       sources get `get_batch` for batch N once more, because some depend on it.
    """
    runtime.faults.reach(FaultPoint.BEFORE_START_OFFSETS, -1)
    latest = runtime.checkpoint.offset_log.get_latest()
    if latest is not None:
        # Before the sources are called, since the checkpoint may be an old copy.
        refuse_batches_only_the_sink_knows(runtime, latest[0])
    runtime.source_ids = _logged_source_ids(runtime, latest[1] if latest else None)
    _set_latest_seen_offsets(runtime, latest[1] if latest else None)
    if latest is None:
        context = _start_afresh(runtime)
        refuse_batches_only_the_sink_knows(runtime, -1)
    else:
        context = _resume(runtime, *latest)
    # The checkpoint may have been replaced between reading the query id and the logs.
    runtime.checkpoint.require_unchanged()
    resume_sinks(runtime, context)
    if runtime.quarantine is not None:
        runtime.quarantine.resume(context)
    _warn_of_limits_that_do_not_apply(runtime, context)
    _logger.info("Stream started from %s", context.start_offsets)
    runtime.faults.reach(FaultPoint.AFTER_START_OFFSETS, context.batch_id)
    return context


def _warn_of_limits_that_do_not_apply(runtime: QueryRuntime, context: BatchContext) -> None:
    """Log a warning if read limits have no effect on a batch that an earlier run has planned."""
    if not context.is_current_batch_constructed:
        return
    for unique in runtime.unique_sources:
        source = unique.original
        start, end = context.start_offsets.get(source), context.end_offsets.get(source)
        if unique.limit != ALL_AVAILABLE and start != end:
            _logger.warning(
                "Batch %s was planned by an earlier run and runs again exactly as planned, from "
                "%s to %s: the read limit %s of %s applies from the next batch on. If this batch "
                "is too large to run, remove its plan with `penstock checkpoint replan`.",
                context.batch_id,
                start,
                end,
                unique.limit,
                source,
            )


def _logged_source_ids(runtime: QueryRuntime, latest: OffsetSeq | None) -> Sequence[str] | None:
    """The source names for the offset log; None for positions. An existing log keeps its format."""
    plan = runtime.plan
    if latest is None:
        return plan.source_ids if plan.names_new_log else None
    if latest.source_ids is None:
        refuse_names_of_sources(runtime)
        return None
    return positions_of(plan.sources) if plan.source_ids is None else plan.source_ids


def _start_afresh(runtime: QueryRuntime) -> BatchContext:
    if runtime.session.settings.verify_new_checkpoint:
        runtime.checkpoint.verify_new()
    _logger.info("Starting new streaming query.")
    runtime.watermark = _new_watermark_tracker(runtime)
    # Entries with names have a further field about the sources, which Spark leaves empty.
    further: dict[str, Any] = {} if runtime.source_ids is None else {"sourceMetadataInfo": {}}
    metadata = OffsetSeqMetadata(conf=runtime.session.recordable_conf(), further=further)
    return BatchContext(batch_id=0, metadata=metadata)


def _resume(runtime: QueryRuntime, latest_batch_id: int, recorded: OffsetSeq) -> BatchContext:
    context = BatchContext(
        batch_id=latest_batch_id,
        end_offsets=_to_progress(runtime, recorded),
        is_current_batch_constructed=True,
    )
    runtime.checkpoint.offset_log.keep_in_memory(latest_batch_id, recorded)
    if latest_batch_id != 0:
        second_latest = _second_latest(runtime, latest_batch_id)
        runtime.checkpoint.offset_log.keep_in_memory(latest_batch_id - 1, second_latest)
        refuse_unfinished_repartition(runtime, latest_batch_id, recorded, second_latest)
        context.start_offsets = _to_progress(runtime, second_latest)
    _restore_metadata(runtime, context, recorded.metadata)
    _compare_with_commit_log(runtime, context, latest_batch_id)
    _logger.info(
        "Resuming at batch %s with committed offsets %s and available offsets %s",
        context.batch_id,
        context.start_offsets,
        context.end_offsets,
    )
    return context


def _second_latest(runtime: QueryRuntime, latest_batch_id: int) -> OffsetSeq:
    entry = runtime.checkpoint.offset_log.get(latest_batch_id - 1)
    if entry is not None:
        return entry
    _logger.error(
        "The offset log for batch %s doesn't exist, which is required to restart the query from "
        "the latest batch %s from the offset log. Please ensure there are two subsequent offset "
        "logs available for the latest batch via manually deleting the offset file(s). Please "
        "also ensure the latest batch for commit log is equal or one batch earlier than the "
        "latest batch for offset log.",
        latest_batch_id - 1,
        latest_batch_id,
    )
    raise MissingBatchError(
        f"batch {latest_batch_id - 1} doesn't exist: "
        f"{runtime.checkpoint.offset_log.path(latest_batch_id - 1)} is needed to run batch "
        f"{latest_batch_id}, because a batch starts where the previous one ends. Restore the "
        "file, or remove the newest entries of both logs down to the last two with consecutive "
        "numbers."
    )


def _restore_metadata(
    runtime: QueryRuntime, context: BatchContext, recorded: OffsetSeqMetadata | None
) -> None:
    """Restore the settings, the watermark and the timestamp that the batch was planned with."""
    watermark_ms = timestamp_ms = 0
    if recorded is not None:
        runtime.session.apply_recorded_conf(recorded)
        watermark_ms = recorded.batch_watermark_ms
        timestamp_ms = recorded.batch_timestamp_ms
    further = recorded.further if recorded is not None else {}
    context.metadata = OffsetSeqMetadata(
        watermark_ms, timestamp_ms, runtime.session.recordable_conf(), further
    )
    runtime.watermark = _new_watermark_tracker(runtime)
    runtime.watermark.set_watermark(watermark_ms)


def _compare_with_commit_log(
    runtime: QueryRuntime, context: BatchContext, latest_batch_id: int
) -> None:
    """If the latest batch is committed, move on to the next one."""
    latest_commit = runtime.checkpoint.commit_log.get_latest()
    if latest_commit is None:
        _logger.info("no commit log present")
        return
    committed_batch_id, commit = latest_commit
    runtime.plan.resume_after_commit(commit)
    if committed_batch_id == latest_batch_id:
        _get_last_batch_again(context, only_without_data=False)
        context.batch_id = latest_batch_id + 1
        context.is_current_batch_constructed = False
        context.start_offsets = context.start_offsets + context.end_offsets
        runtime.watermark.set_watermark(
            max(runtime.watermark.current_watermark, commit.next_batch_watermark_ms)
        )
    elif committed_batch_id == latest_batch_id - 1:
        # The batch runs anyway, but without calling the sources that have no data in it.
        _get_last_batch_again(context, only_without_data=True)
    elif committed_batch_id < latest_batch_id - 1:
        _logger.warning(
            "Batch completion log latest batch id is %s, which is not trailing batchid %s by one",
            committed_batch_id,
            latest_batch_id,
        )
    else:
        raise MissingBatchError(
            f"batch {committed_batch_id} doesn't exist in the offset log, whose latest batch is "
            f"{latest_batch_id}, but it is in the commit log. Running batch "
            f"{latest_batch_id} again would write its output twice, so nothing was run. Restore "
            f"{runtime.checkpoint.offset_log.path(committed_batch_id)}, or remove the entries of "
            f"the commit log after batch {latest_batch_id} to accept that."
        )


def _get_last_batch_again(context: BatchContext, *, only_without_data: bool) -> None:
    for source, end in context.end_offsets.items():
        start = context.start_offsets.get(source)
        # As in Spark, a source is called too if the batch is its first one.
        has_data = start is not None and start != end
        if isinstance(source, Source) and not (only_without_data and has_data):
            source.get_batch(start, end)


def _set_latest_seen_offsets(runtime: QueryRuntime, latest: OffsetSeq | None) -> None:
    willing = [s for s in dict.fromkeys(runtime.plan.sources) if s.accepts_latest_seen_offset]
    unsupported = [str(source) for source in willing if isinstance(source, Source)]
    if unsupported:
        raise ExecutionError(
            "AcceptsLatestSeenOffset is not supported with DSv1 streaming source: "
            + ", ".join(unsupported)
        )
    if latest is not None:
        progress = _to_progress(runtime, latest)
        for source in willing:
            offset = progress.get(source)
            if offset is not None:
                source.set_latest_seen_offset(offset)


def _to_progress(runtime: QueryRuntime, entry: OffsetSeq) -> StreamProgress:
    return StreamProgress.from_offset_seq(entry, runtime.plan.sources, runtime.plan.source_ids)


def _new_watermark_tracker(runtime: QueryRuntime) -> WatermarkTracker:
    return WatermarkTracker(runtime.session.watermark_policy, runtime.plan.watermark_operators)
