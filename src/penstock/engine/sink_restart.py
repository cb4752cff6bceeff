"""Compares many sinks with the checkpoint, at the start of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from penstock.checkpoint.sink_entries import SinkEntry, SinkNames
from penstock.engine.batch_context import BatchContext
from penstock.engine.concurrent_runs import concurrent_update
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink
from penstock.engine.runtime import QueryRuntime
from penstock.engine.sink_delivery import SinkDelivery, listed
from penstock.errors import SinkAheadError, SinkRenamedError

_logger = logging.getLogger(__name__)


def resume_sinks(runtime: QueryRuntime, context: BatchContext) -> None:
    """Find the sinks that a planned batch is still to be written to. Called before the first batch.

    1. Entries of batches that are not planned are refused: the sinks would skip these batches.
    2. A sink whose name is not recorded is new and starts with the next batch; one that is recorded
       and gone is forgotten. Both at once may be a rename, and are refused.
    3. A planned batch is for the sinks that were recorded when it was planned, without those that
       have an entry. If no names are recorded, it is for all sinks.
    4. The names are recorded if they have changed, those of the planned batch first. They are also
       recorded if the newest record does not apply yet to the first batch that is not planned: the
       plan of that batch was removed.
    """
    delivery = runtime.sinks
    if delivery is None:
        return
    records, sinks = runtime.checkpoint.sink_names, delivery.sinks
    is_planned = context.is_current_batch_constructed
    # (1)
    _refuse_later_entries(runtime, delivery, context.batch_id - (not is_planned))
    # (2)
    newest = records.get_latest()
    recorded = newest[1].names if newest else ()
    _refuse_rename(sinks, recorded)
    # (3)
    of_planned = records.of_batch(context.batch_id) if is_planned else None
    due = _due(sinks, of_planned) if is_planned else {}
    done = [name for name, former in due.items() if _is_done(runtime, context, name, former)]
    _make_directories(runtime, delivery)
    if is_planned:
        delivery.resume_batch(context.batch_id, due.keys(), done)
        _carry_over(delivery, context, done)
    # (4)
    if of_planned is not None and due.keys() != set(of_planned.names):
        _record(runtime, SinkNames(context.batch_id, tuple(due)))
    first = context.batch_id + (is_planned and newest is not None)
    if newest is None or newest[1].from_batch > first or delivery.logs.keys() != set(recorded):
        _record_names(runtime, context, delivery, recorded, first)
    if done:
        _logger.info(
            "Batch %s was written to these sinks in an earlier run, and is not written to them "
            "again: %s",
            context.batch_id,
            listed(done),
        )


def _refuse_later_entries(runtime: QueryRuntime, delivery: SinkDelivery, newest: int) -> None:
    for name, log in delivery.logs.items():
        batches = log.list_batches()
        if not batches or batches[-1] <= newest:
            continue
        planned = f"none after {newest}" if newest >= 0 else "none"
        remedy = (
            f"run `penstock checkpoint rewind CHECKPOINT --to {newest}`, which removes these "
            "entries with a backup: the sinks then get the next batches with these ids"
            if newest >= 0
            else f"remove {log.path(batches[-1])} and the entries before it"
        )
        raise SinkAheadError(
            f"The sink {name} has an entry for batch {batches[-1]}, but the checkpoint "
            f"{runtime.checkpoint.root} has planned {planned}. The sink would skip the next "
            "batches up to this one, and their rows would be lost. Nothing was run. Files of the "
            "checkpoint were removed or replaced by an older copy. Restore them; or, to accept "
            f"that, {remedy}."
        )


def _refuse_rename(sinks: Sequence[NamedSink], recorded: Sequence[str]) -> None:
    former = {_former_name(sink, recorded) for sink in sinks}
    gone = [name for name in recorded if name not in former]
    new = [sink.name for sink in sinks if _former_name(sink, recorded) is None]
    if gone and new:
        raise SinkRenamedError(
            f"The query had the sinks {listed(recorded)}. Gone: {listed(gone)}; new: "
            f"{listed(new)}. If a sink was renamed or replaced, say so, and it continues where the "
            f'other one stopped: .to("{new[0]}", ..., replaces="{gone[0]}"). If they have nothing '
            "to do with each other, start the query once without the new one, and add it at a "
            "later start. Nothing was run."
        )


def _former_name(sink: NamedSink, names: Sequence[str]) -> str | None:
    """The name that a sink has among recorded ones; None if it is new."""
    if sink.name in names:
        return sink.name
    return sink.replaces if sink.replaces in names else None


def _due(sinks: Sequence[NamedSink], record: SinkNames | None) -> Mapping[str, str]:
    """The sinks of a planned batch that the query still has, with their recorded names."""
    if record is None:
        return {sink.name: sink.name for sink in sinks}
    former = {sink.name: _former_name(sink, record.names) for sink in sinks}
    return {name: before for name, before in former.items() if before is not None}


def _is_done(runtime: QueryRuntime, context: BatchContext, name: str, former: str) -> bool:
    """Whether the planned batch has an entry of the sink, under its name or its former one."""
    for known in dict.fromkeys((name, former)):
        log = runtime.checkpoint.sink_log(known)
        entry = log.get(context.batch_id)
        if entry is None:
            continue
        if entry.batch_timestamp_ms != context.metadata.batch_timestamp_ms:
            raise SinkAheadError(
                f"The sink {known} has an entry for batch {context.batch_id}, but for another plan "
                "of it: the batch was planned anew since. The sink would skip rows. Nothing was "
                "run. If the sink may get the batch as it is planned now, remove "
                f"{log.path(context.batch_id)} and start the query again."
            )
        return True
    return False


def _make_directories(runtime: QueryRuntime, delivery: SinkDelivery) -> None:
    runtime.checkpoint.sink_names.make_directory()
    for log in delivery.logs.values():
        log.make_directory()


def _carry_over(delivery: SinkDelivery, context: BatchContext, done: Sequence[str]) -> None:
    """Write the entries of the planned batch under the new names of sinks that were renamed."""
    for name in done:
        log = delivery.logs[name]
        if log.get(context.batch_id) is None:
            log.add(context.batch_id, SinkEntry(context.metadata.batch_timestamp_ms))


def _warn_of_removed(
    runtime: QueryRuntime,
    context: BatchContext,
    sinks: Sequence[NamedSink],
    recorded: Sequence[str],
) -> None:
    former = {_former_name(sink, recorded) for sink in sinks}
    for name in (name for name in recorded if name not in former):
        entry = runtime.checkpoint.sink_log(name).get(context.batch_id)
        is_missed = context.is_current_batch_constructed and entry is None
        missed = f" Batch {context.batch_id}, which it has not finished, is not written to it."
        _logger.warning(
            "The sink %s is no longer part of the query and is forgotten.%s If it is added again, "
            "it starts with the next batch that is planned then.",
            name,
            missed if is_missed else "",
        )


def _record_names(
    runtime: QueryRuntime,
    context: BatchContext,
    delivery: SinkDelivery,
    recorded: Sequence[str],
    first_batch: int,
) -> None:
    """Record the sinks from `first_batch` on; forget those that are only `recorded`."""
    _warn_of_removed(runtime, context, delivery.sinks, recorded)
    _record(runtime, SinkNames(first_batch, tuple(delivery.logs)))
    for name in recorded:
        if name not in delivery.logs:
            runtime.checkpoint.sink_log(name).forget_all()


def _record(runtime: QueryRuntime, record: SinkNames) -> None:
    runtime.faults.reach(FaultPoint.BEFORE_SINK_NAMES, -1)
    if not runtime.checkpoint.sink_names.append(record):
        raise concurrent_update(runtime, record.from_batch)
    runtime.faults.reach(FaultPoint.AFTER_SINK_NAMES, -1)
