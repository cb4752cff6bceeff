"""Moving a checkpoint in time: rewind to a batch, plan a batch anew, skip a batch.

Nothing here changes a file: a Plan is made, or SurgeryRefusedError raised. What is deleted goes in
this order: state, the logs of sources, the two logs from their newest entry down. A command that is
interrupted in between thus leaves a checkpoint that refuses to run, never one that runs wrongly.
"""

from __future__ import annotations

from pathlib import Path

from penstock.checkpoint.commit_log import CommitMetadata
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.tools.changes import Change, Kind, Plan, create_file, delete_files
from penstock.checkpoint.tools.compactible_log import COMPACT_SUFFIX, CompactibleLog, log_offset
from penstock.checkpoint.tools.targets import (
    listed,
    recorded_partitions,
    require_entries,
    require_target,
)
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError

SINK_LOG = "_spark_metadata"


def rewind(view: CheckpointView, to: int, sink: Path | None = None) -> Plan:
    """Make the next run continue after batch `to`, which counts as committed.

    Refused unless the checkpoint still holds the two offset entries, the commit and, for a query
    with state, every state store's version that going on from there takes, and unless those entries
    are of the sources as they are now. `sink` is the output
    directory of a file sink whose own log is to be cut back with the checkpoint.
    """
    newest = view.newest_batch
    if newest is None:
        raise SurgeryRefusedError("There is no batch to rewind to: the offset log is empty.")
    require_target(view, to)
    changes = [*_cut_after(view, to), *_cut_sink(view, sink, to)]
    last = max(newest, view.commits.newest or 0)
    return Plan(
        operation=f"rewind --to {to}",
        outcome=(
            f"The next run continues after batch {to}: it plans batch {to + 1} anew, from offsets "
            f"{view.entry(to)}."
        ),
        changes=tuple(changes),
        warnings=() if last == to else _sink_warnings(to + 1, last, sink),
    )


def replan(view: CheckpointView, sink: Path | None = None) -> Plan:
    """Drop the planned, uncommitted batch, so that it is planned anew with the limits of then."""
    batch = _planned_batch(view, "replan")
    if batch > 0:
        require_target(view, batch - 1)
    changes = [*_cut_after(view, batch - 1), *_cut_sink(view, sink, batch - 1)]
    start = view.entry(batch - 1) if batch > 0 else "the beginning"
    return Plan(
        operation="replan",
        outcome=f"The next run plans batch {batch} anew, from offsets {start}, with new limits.",
        changes=tuple(changes),
        warnings=_sink_warnings(batch, batch, sink),
    )


def skip(view: CheckpointView) -> Plan:
    """Mark the planned batch as done without running it: its input is passed over for good.

    The watermark stays where the batch had it. With state, refused unless the batch has already
    written its version of every store, because the batch after it needs that version.
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
            f"{listed(missing)}). Only running a batch writes state. Let it run with less to do "
            f"(penstock checkpoint replan), or move its source's offset past the bad input "
            "(replan, then set-offset)."
        )
    if before is not None and before.state_unique_ids:
        raise SurgeryRefusedError(
            f"Batch {batch} cannot be skipped: its commit would have to name the state files that "
            "belong to it (commit log v2), and only running the batch tells which those are. Use "
            "replan, then set-offset to move the source past the bad input."
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
        ),
    )


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
            "See what verify says first."
        )
    return newest


def _cut_after(view: CheckpointView, batch: int) -> list[Change]:
    """Delete whatever batches later than `batch` left behind; batch -1 for all of them."""
    root = view.root
    changes: list[Change] = []
    if batch < 0 and not view.state.is_empty:
        # A new query refuses to start on a state directory that is not empty.
        changes.append(Change(Kind.DELETE, "state"))
    else:
        changes += delete_files(root, view.state.paths_beyond(batch + 1))
    end = view.entry(batch) if batch >= 0 else None
    changes += _cut_sources(view, end)
    ids = sorted({*view.offsets.ids, *view.commits.ids}, reverse=True)
    for later in (i for i in ids if i > batch):
        changes += delete_files(
            root, [root / "commits" / str(later), root / "offsets" / str(later)]
        )
    return [*changes, *_orphaned_twins(view, batch, end)]


def _orphaned_twins(view: CheckpointView, batch: int, end: OffsetSeq | None) -> list[Change]:
    """Delete checksums without a file that would keep Spark from writing the entries to come."""
    last = {view.root / "offsets": batch, view.root / "commits": batch}
    for directory in source_directories(view):
        number = log_offset(offset_of(end, directory.name)) if end else -1
        last[directory] = CompactibleLog.scan(directory).newest if number is None else number
    changes = []
    for log, newest in last.items():
        for twin in sorted(log.glob(".*.crc")) if log.is_dir() else ():
            file = twin.with_name(twin.name[1 : -len(".crc")])
            number = number_of(file)
            if number is not None and number > newest and not file.exists():
                changes.append(Change(Kind.DELETE, view.relative(twin)))
    return changes


def number_of(file: Path) -> int | None:
    """The number of a log entry's file, compacted or not; None for any other file."""
    digits = file.name.removesuffix(COMPACT_SUFFIX)
    return int(digits) if digits.isdigit() else None


def is_ahead(file: Path) -> bool:
    """Whether a file of a log is one that is yet to be written; never for a file of the state."""
    of_log = file.parent.name in ("offsets", "commits") or file.parent.parent.name == "sources"
    number = number_of(file)
    return of_log and number is not None and number > CompactibleLog.scan(file.parent).newest


def _cut_sources(view: CheckpointView, end: OffsetSeq | None) -> list[Change]:
    """Delete the entries of file sources' own logs beyond an entry's offsets.

    A file source takes the files in its log for seen. Left there, they would all go into the next
    batch at once, whatever the limits.
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


def source_directories(view: CheckpointView) -> list[Path]:
    """The directories that sources keep their own files in."""
    parent = view.root / "sources"
    return sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []


def offset_of(entry: OffsetSeq, source: str) -> str | None:
    """The offset of a source, by its number or, where sources are named, its name."""
    if entry.source_ids is not None:
        by_name = dict(zip(entry.source_ids, entry.offsets, strict=True))
        return by_name.get(source)
    number = int(source) if source.isdigit() else -1
    return entry.offsets[number] if 0 <= number < len(entry.offsets) else None


def _cut_sink(view: CheckpointView, sink: Path | None, batch: int) -> list[Change]:
    if sink is None:
        return []
    directory = sink.absolute() / SINK_LOG
    if not directory.is_dir():
        raise SurgeryRefusedError(f"{sink} is not the output of a file sink: no {directory}.")
    return delete_files(view.root, CompactibleLog.scan(directory).beyond(batch))


def _sink_warnings(first: int, last: int, sink: Path | None) -> tuple[str, ...]:
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    again = (
        f"The sink may already hold {batches}. A sink that does not remember batch ids "
        "(foreachBatch, foreach, Kafka, console) will be given them again: expect duplicates there."
    )
    if sink is not None:
        return (
            again,
            f"The log of {sink} is cut back too. The data files of {batches} stay on disk: Spark "
            "does not read files that the log does not name, other readers will.",
        )
    return (
        again,
        f"DATA LOSS with a sink that remembers batch ids: a file sink (parquet, json, csv, ...) "
        f"SKIPS every batch up to the newest in its {SINK_LOG}, a Delta sink every batch this "
        f"query id has written. {batches.capitalize()} planned anew may hold other rows than "
        "before; those rows would never be written. Remedy: for a file sink, repeat with --sink "
        "OUTPUT_DIRECTORY to cut its log back as well, or write to a new directory; for Delta, "
        "remove the rows and use penstock checkpoint fork --at, which gives a new query id.",
    )
