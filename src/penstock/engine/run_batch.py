"""Runs a constructed batch, from reading its data to committing it."""

from __future__ import annotations

import logging

from penstock.engine.batch_context import BatchContext
from penstock.engine.batch_parts import BatchPart
from penstock.engine.concurrent_runs import concurrent_update
from penstock.engine.data_stream import DataStream
from penstock.engine.faults import FaultPoint
from penstock.engine.hooks import HookPoint
from penstock.engine.runtime import QueryRuntime
from penstock.engine.seam import BatchExecution, BatchRequest

_logger = logging.getLogger(__name__)


def run_batch(runtime: QueryRuntime, context: BatchContext) -> None:
    """Run the batch and commit it.

    0. What the batch leaves out is decided, if it has failed before; see `quarantine`.
    1. getBatch: each source with new data returns the data of its range.
    2-4. The plan's sources are replaced by this data, the current time by the batch's timestamp,
       and the sink gets the batch id.
    5-6. queryPlanning: the physical plan is made.
    7. addBatch: the plan runs and the sink writes the result; many sinks: see `sink_delivery`.
    8. The watermark advances, and the batch is written to the commit log.

    Raises StoppedError if the query is stopped, unless gracefully, before step 0 or step 7.
    """
    runtime.require_not_stopped(f"batch {context.batch_id} was run")
    _logger.debug("Running batch %s", context.batch_id)
    with context.running():
        runtime.call_hooks(HookPoint.BEFORE_BATCH, context)
        execution = _write_rest(runtime, context)
        runtime.faults.reach(FaultPoint.AFTER_SINK, context.batch_id)
        runtime.call_hooks(HookPoint.AFTER_SINK, context)
        # (8)
        with runtime.progress_lock:
            runtime.watermark.update_watermark(execution.event_time_stats())
            with runtime.reporter.report_time_taken("commitOffsets"):
                _commit(runtime, context)
    runtime.call_hooks(HookPoint.AFTER_COMMIT, context)
    _logger.debug("Completed batch %s", context.batch_id)


def _write_rest(runtime: QueryRuntime, context: BatchContext) -> BatchExecution:
    """Write the batch without what its quarantine, if there is one, leaves out."""
    quarantine = runtime.quarantine
    if quarantine is None:
        return _write(runtime, context, None)
    # (0)
    rest = quarantine.rest_of(context)
    with quarantine.counting_failures(context):
        return _write(runtime, context, rest)


def _write(runtime: QueryRuntime, context: BatchContext, rest: BatchPart | None) -> BatchExecution:
    """The steps up to the write; `rest` is what the batch is run with, None for all of it."""
    # (1)
    data = _get_batches(runtime, context) if rest is None else _get_rest(runtime, context, rest)
    # (2) (3) (4) (5) (6)
    runtime.faults.reach(FaultPoint.BEFORE_PLANNING, context.batch_id)
    with runtime.reporter.report_time_taken("queryPlanning"):
        execution = runtime.plan.prepare(
            BatchRequest(
                batch_id=context.batch_id,
                metadata=context.metadata,
                previous_metadata=runtime.checkpoint.offset_log.metadata_of(context.batch_id - 1),
                data=data,
                is_first_in_run=context.last_execution is None,
            )
        )
    context.execution = execution
    runtime.faults.reach(FaultPoint.AFTER_PLANNING, context.batch_id)
    # (7)
    runtime.faults.reach(FaultPoint.BEFORE_SINK, context.batch_id)
    runtime.require_not_stopped(f"batch {context.batch_id} was written")
    with runtime.reporter.report_time_taken("addBatch"):
        sinks = runtime.sinks
        context.output_rows = execution.run() if sinks is None else sinks.write(context)
    return execution


def _get_batches(runtime: QueryRuntime, context: BatchContext) -> dict[DataStream, object]:
    runtime.faults.reach(FaultPoint.BEFORE_GET_BATCH, context.batch_id)
    data: dict[DataStream, object] = {}
    with runtime.reporter.report_time_taken("getBatch"):
        for source, available in context.end_offsets.items():
            current = context.start_offsets.get(source)
            if current != available:
                data[source] = source.get_batch(current, available)
                if runtime.pacing is not None:
                    runtime.pacing.count(source, data[source])
                _logger.debug("Retrieving data from %s: %s -> %s", source, current, available)
    runtime.faults.reach(FaultPoint.AFTER_GET_BATCH, context.batch_id)
    return data


def _get_rest(
    runtime: QueryRuntime, context: BatchContext, rest: BatchPart
) -> dict[DataStream, object]:
    """The data of a batch that leaves out parts."""
    runtime.faults.reach(FaultPoint.BEFORE_GET_BATCH, context.batch_id)
    with runtime.reporter.report_time_taken("getBatch"):
        data = rest.read()
    runtime.faults.reach(FaultPoint.AFTER_GET_BATCH, context.batch_id)
    return data


def _commit(runtime: QueryRuntime, context: BatchContext) -> None:
    assert context.execution is not None
    metadata = context.execution.commit_metadata(runtime.watermark.current_watermark)
    runtime.faults.reach(FaultPoint.BEFORE_COMMIT_LOG, context.batch_id)
    if not runtime.checkpoint.commit_log.add(context.batch_id, metadata):
        raise concurrent_update(runtime, context.batch_id)
    runtime.faults.reach(FaultPoint.AFTER_COMMIT_LOG, context.batch_id)
