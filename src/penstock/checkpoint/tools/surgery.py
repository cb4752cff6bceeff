"""Plans commands on batches: rewind to a batch, plan a batch anew, skip a batch.

The functions return a Plan or raise SurgeryRefusedError; they change no file. Deletions are in this
order: state, the logs of sources, the entries of many sinks, the two logs from their newest entry
down. If a command is interrupted, the checkpoint therefore refuses to run rather than producing
wrong results.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.commit_log import CommitMetadata
from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.local_files import file_of, is_twin
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.timestamps import format_timestamp
from penstock.checkpoint.tools.changes import Change, Kind, Plan, create_file, delete_files
from penstock.checkpoint.tools.compactible_log import COMPACT_SUFFIX, CompactibleLog, log_offset
from penstock.checkpoint.tools.output_log import SINK_LOG, OutputLog, batches
from penstock.checkpoint.tools.quarantine_files import cut_quarantine
from penstock.checkpoint.tools.sink_files import again_warning, cut_sinks, waiting_sinks
from penstock.checkpoint.tools.targets import (
    last_before,
    listed,
    recorded_partitions,
    require_entries,
    require_target,
)
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError


def rewind(view: CheckpointView, to: int, sink: CheckpointPath | None = None) -> Plan:
    """Make the next run continue after batch `to`, which must be committed.

    Raises SurgeryRefusedError if the two offset entries, the commit or, for a query with state, the
    state versions that the restart needs do not exist any more, or if the entries belong to other
    sources than the query has now. `sink` is the output directory of a file sink whose own log is
    to be cut back too.
    """
    newest = view.newest_batch
    if newest is None:
        raise SurgeryRefusedError("There is no batch to rewind to: the offset log is empty.")
    require_target(view, to)
    output = None if sink is None else OutputLog.of(sink, view.root, to)
    changes = [*_cut_after(view, to), *(output.cut(view.root, to) if output else ())]
    last = max(newest, view.commits.newest or 0)
    return Plan(
        operation=f"rewind --to {to}",
        outcome=(
            f"The next run continues after batch {to}: it plans batch {to + 1} anew, from offsets "
            f"{view.entry(to)}."
        ),
        changes=tuple(changes),
        warnings=_sink_warnings(to + 1, last, output) + again_warning(view, to),
    )


def rewind_to_time(view: CheckpointView, time_ms: int, sink: CheckpointPath | None = None) -> Plan:
    """Rewind to the last batch that was planned before a time: its timestamp in the offset log."""
    if view.newest_batch is None:
        raise SurgeryRefusedError("There is no batch to rewind to: the offset log is empty.")
    to = last_before(view, time_ms)
    plan = rewind(view, to, sink)
    metadata = view.entry(to).metadata
    assert metadata is not None  # `last_before` has read its time
    found = (
        f"Batch {to}, planned at {format_timestamp(metadata.batch_timestamp_ms)}, is the last one "
        f"planned before {format_timestamp(time_ms)}."
    )
    return replace(plan, outcome=f"{found} {plan.outcome}")


def replan(view: CheckpointView, sink: CheckpointPath | None = None) -> Plan:
    """Remove the planned, uncommitted batch, so that the next run plans it with new limits."""
    batch = _planned_batch(view, "replan")
    if batch > 0:
        require_target(view, batch - 1)
    output = None if sink is None else OutputLog.of(sink, view.root, batch - 1)
    changes = [*_cut_after(view, batch - 1), *(output.cut(view.root, batch - 1) if output else ())]
    start = view.entry(batch - 1) if batch > 0 else "the beginning"
    return Plan(
        operation="replan",
        outcome=f"The next run plans batch {batch} anew, from offsets {start}, with new limits.",
        changes=tuple(changes),
        warnings=_sink_warnings(batch, batch, output)
        + again_warning(view, batch - 1)
        + _marks_warning(view, batch),
    )


def _marks_warning(view: CheckpointView, batch: int) -> tuple[str, ...]:
    """A warning if directories of the state that is deleted remain in a store."""
    root = view.root
    if batch > 0 or not isinstance(root, StorePath):
        return ()
    if not any(mark.startswith("state/") for mark in root.tree.marks):
        return ()
    return (
        "Hadoop's connector has marked the directories of the state with objects that this command "
        "does not remove. Penstock starts all the same; for Spark's own engine remove "
        f"{root}/state with Hadoop's tools, or use a new checkpoint.",
    )


def skip(view: CheckpointView) -> Plan:
    """Commit the planned batch without running it: its input is never processed.

    The watermark does not advance. For a query with state, raises SurgeryRefusedError unless the
    batch has already written its version of every store, because the next batch needs that version.
    """
    batch = _planned_batch(view, "skip")
    entry = view.entry(batch)
    if batch > 0:
        require_entries(view, batch - 1)
    before = view.commit(batch - 1) if batch > 0 else None
    missing = view.state.missing(batch + 1, recorded_partitions(entry))
    if not view.state.is_empty and missing:
        raise SurgeryRefusedError(
            f"Batch {batch} cannot be skipped: this query keeps state, and batch {batch + 1} would "
            f"need version {batch + 1} of it, which batch {batch} has not written ("
            f"{listed(missing)}). Only running a batch writes state. Make the batch smaller "
            f"(penstock checkpoint replan), or {_past_bad_input(batch)}."
        )
    if before is not None and before.state_unique_ids:
        raise SurgeryRefusedError(
            f"Batch {batch} cannot be skipped: its commit would have to list the ids of its state "
            "files (commit log v2), which are known only when the batch has run. Use replan, then "
            "set-offset to move the source past the bad input."
        )
    watermark = entry.metadata.batch_watermark_ms if entry.metadata else 0
    commit = CommitMetadata(
        max(watermark, before.next_batch_watermark_ms if before else 0),
        sinks=before.sinks if before else None,
        version=before.version if before else 1,
    )
    content = view.directory.commit_log.serialize(commit)
    start = view.entry(batch - 1) if batch > 0 else "the beginning"
    return Plan(
        operation="skip",
        outcome=f"Batch {batch} counts as done; the next run plans batch {batch + 1}.",
        changes=tuple(create_file(view.root, f"commits/{batch}", content)),
        warnings=(
            f"The input of batch {batch}, from {start} to {entry}, is never processed. Note the "
            "offsets if you want to process it another way.",
            *(f"The sink {name} never gets batch {batch}." for name in waiting_sinks(view)),
            *_first_state_warning(view, batch),
        ),
    )


def _first_state_warning(view: CheckpointView, batch: int) -> tuple[str, ...]:
    """A warning if the files do not tell whether the query keeps state."""
    if batch > 0 or not view.state.is_empty:
        return ()
    return (
        "If this query keeps state, do not skip batch 0: batch 1 needs version 1 of the state, "
        f"which only running batch 0 writes. Instead, {_past_bad_input(batch)}.",
    )


def _past_bad_input(batch: int) -> str:
    """What to do instead of skipping a batch; a source has no offset before the first one."""
    if batch == 0:
        return "start the query with a new checkpoint, from where its sources are to begin"
    return "move the offset of its source past the bad input (replan, then set-offset)"


def _planned_batch(view: CheckpointView, operation: str) -> int:
    newest = view.newest_batch
    if newest is None or not view.is_planned:
        raise SurgeryRefusedError(
            f"There is nothing to {operation}: no batch is planned and uncommitted"
            + ("." if newest is None else f"; the newest, {newest}, is committed.")
        )
    committed = view.commits.newest
    if newest > 0 and committed != newest - 1:
        raise SurgeryRefusedError(
            f"Batch {newest} is planned but the newest commit is {committed}, not {newest - 1}. "
            f"Run {checkpoint_command('verify', view.root)} first."
        )
    return newest


def _cut_after(view: CheckpointView, batch: int) -> list[Change]:
    """Delete all files of batches later than `batch`; with -1, those of all batches."""
    root = view.root
    changes: list[Change] = []
    if batch < 0 and not view.state.is_empty:
        # A new query does not start if the state directory is not empty.
        changes.append(Change(Kind.DELETE, "state"))
    else:
        changes += delete_files(root, view.state.paths_beyond(batch + 1))
    end = view.entry(batch) if batch >= 0 else None
    changes += _cut_sources(view, end)
    changes += cut_sinks(view, batch)
    changes += cut_quarantine(view, batch)
    if batch < 0:
        changes += delete_files(root, strangers_in_logs(view))
    ids = sorted({*view.offsets.ids, *view.commits.ids}, reverse=True)
    for later in (i for i in ids if i > batch):
        changes += delete_files(
            root, [root / "commits" / str(later), root / "offsets" / str(later)]
        )
    return [*changes, *_orphaned_twins(view, batch, end)]


def strangers_in_logs(view: CheckpointView) -> list[CheckpointPath]:
    """What is in the directories of the two logs and is neither an entry nor a checksum file.

    If there is no batch, Spark 4.1 and newer refuse to start beside it.
    """
    logs = [log for log in (view.root / "offsets", view.root / "commits") if log.is_dir()]
    found = [path for log in logs for path in log.iterdir()]
    return sorted(p for p in found if file_number(p.name) is None and not is_twin(p.name))


def _orphaned_twins(view: CheckpointView, batch: int, end: OffsetSeq | None) -> list[Change]:
    """Delete checksum files without a file: Spark could not write the next entries."""
    last = {view.root / "offsets": batch, view.root / "commits": batch}
    for directory in source_directories(view):
        number = log_offset(offset_of(end, directory.name)) if end else -1
        last[directory] = CompactibleLog.scan(directory).newest if number is None else number
    changes = []
    for log, newest in last.items():
        for twin in sorted(log.glob(".*.crc")) if log.is_dir() else ():
            file = file_of(twin)
            number = number_of(file)
            if number is not None and number > newest and not file.exists():
                changes.append(Change(Kind.DELETE, view.relative(twin)))
    return changes


def number_of(file: CheckpointPath) -> int | None:
    """The number in the name of a log entry's file, compact or not; None for other files."""
    return file_number(file.name.removesuffix(COMPACT_SUFFIX))


def is_ahead(file: CheckpointPath) -> bool:
    """Whether a file has the name of a log entry that will be written in the future."""
    of_log = file.parent.name in ("offsets", "commits") or file.parent.parent.name == "sources"
    number = number_of(file)
    return of_log and number is not None and number > CompactibleLog.scan(file.parent).newest


def _cut_sources(view: CheckpointView, end: OffsetSeq | None) -> list[Change]:
    """Delete the entries of file sources' own logs after an entry's offsets.

    If they were kept, all their files would be in the next batch, whatever the read limits.
    """
    changes: list[Change] = []
    for directory in source_directories(view):
        log = CompactibleLog.scan(directory)
        if not log.is_file_log:
            continue
        last = -1 if end is None else log_offset(offset_of(end, directory.name))
        if last is not None:
            changes += delete_files(view.root, log.beyond(last))
    return changes


def source_directories(view: CheckpointView) -> list[CheckpointPath]:
    """The directories of the sources' own files."""
    parent = view.root / "sources"
    return sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []


def offset_of(entry: OffsetSeq, source: str) -> str | None:
    """The offset of a source, given its number or, in an entry with names, its name."""
    if entry.source_ids is not None:
        by_name = dict(zip(entry.source_ids, entry.offsets, strict=True))
        return by_name.get(source)
    number = file_number(source)
    if number is None or number >= len(entry.offsets):
        return None
    return entry.offsets[number]


def _sink_warnings(first: int, last: int, output: OutputLog | None) -> tuple[str, ...]:
    """The warnings about the batches that are planned anew, which a sink may already have.

    If there are none, because `first` is after `last`, only those about the log that is cut back.
    """
    is_cut = output is not None and output.has_from(first)
    of_output = () if output is None else output.warnings(first, last)
    if first > last:
        return of_output if is_cut else ()
    planned = batches(first, last)
    again = (
        f"The sink may already have {planned}. A sink that does not remember batch ids "
        "(foreachBatch, foreach, Kafka, console) will get them again: expect duplicates there."
    )
    if is_cut:
        return (again, *of_output)
    return (
        again,
        *of_output,
        f"DATA LOSS with a sink that remembers batch ids: a file sink (parquet, json, csv, ...) "
        f"SKIPS every batch up to the newest in its {SINK_LOG}, a Delta sink every batch this "
        f"query id has written. {planned.capitalize()} planned anew may have other rows than "
        "before; those rows would never be written. Remedy: for a file sink, repeat with --sink "
        "OUTPUT_DIRECTORY to cut its log back as well, or start over with a new checkpoint and a "
        "new output directory (this checkpoint cannot be used with a new output directory); for "
        "Delta, remove the rows and use penstock checkpoint fork --at, which gives a new query "
        "id. The sinks of penstock.sinks find such a batch and fail (on_rewind); the error says "
        "how to write it again.",
    )
