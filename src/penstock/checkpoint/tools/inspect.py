"""The content of a checkpoint, or of one batch, for `show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.paths import CheckpointPath, files_below
from penstock.checkpoint.tools.activity import activity_of
from penstock.checkpoint.tools.backup import backups_of
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.checkpoint.tools.offset_text import (
    kind_of,
    movement,
    partition_changes,
    position_in,
)
from penstock.checkpoint.tools.sink_files import SinkReport, finished_sinks, sink_reports
from penstock.checkpoint.tools.state_files import StateOperator
from penstock.checkpoint.tools.surgery import offset_of
from penstock.checkpoint.tools.targets import Targets, possible_targets, recorded_partitions
from penstock.checkpoint.tools.view import PARTS, CheckpointView
from penstock.errors import CheckpointError, MalformedLogError, MissingBatchError

_LISTED_FILES = 50
_MAPPINGS = {"settings", "offsets", "moved", "start", "files", "commit", "position", "positions"}


@dataclass(frozen=True)
class BatchReport:
    """One batch, from the two logs. Times are milliseconds since the epoch."""

    id: int
    status: str
    """`committed`, `planned`, or `unreadable`."""
    planned_at_ms: int | None
    committed_at_ms: int | None
    watermark_ms: int
    next_watermark_ms: int | None
    offsets: Mapping[str, str | None]
    moved: Mapping[str, str]
    problem: str | None = None


@dataclass(frozen=True)
class SourceReport:
    """A source: its newest offset, how far the newest batch moved it, and its own files.

    `position` is the parsed offset of a Kafka, Delta or Iceberg source, None for other sources.
    """

    name: str
    kind: str
    offset: str | None
    moved: str
    own_files: int
    own_bytes: int
    position: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class OperatorReport:
    """A stateful operator and the versions of its state that are complete on disk."""

    id: int
    name: str | None
    provider: str
    partitions: int
    recorded_partitions: int | None
    stores: tuple[str, ...]
    versions: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class PartSize:
    """The size of a part of the checkpoint."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class CheckpointReport:
    """The output of `show DIR`."""

    path: str
    query_id: str | None
    offset_log_versions: tuple[int, ...]
    commit_log_versions: tuple[int, ...]
    next_batch: int
    is_planned: bool
    batches: tuple[BatchReport, ...]
    sources: tuple[SourceReport, ...]
    settings: Mapping[str, str]
    operators: tuple[OperatorReport, ...]
    sizes: tuple[PartSize, ...]
    rewind_targets: tuple[int, ...]
    undoable: tuple[str, ...]
    in_use: str | None
    sinks: tuple[SinkReport, ...] = ()
    """The sinks of a query with many; empty for one sink."""

    def to_dict(self) -> dict[str, Any]:
        return _camel_dict(asdict(self))


@dataclass(frozen=True)
class BatchDetail:
    """The output of `show DIR N`."""

    batch: BatchReport
    start: Mapping[str, str | None] | None
    """The end offsets of the previous batch; None if its entry does not exist."""
    settings: Mapping[str, str]
    reads_state_version: int | None
    reads_state_missing: tuple[str, ...]
    writes_state_version: int | None
    writes_state_missing: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    """For file sources: the input files of the batch, at most fifty. A source is left out if its
    log does not have them any more."""
    commit: Mapping[str, Any] | None
    positions: Mapping[str, Mapping[str, Any]]
    """For Kafka sources: each partition with its start, its end and the count of offsets. For Delta
    and Iceberg sources: the parsed start and end offset."""
    finished_sinks: tuple[str, ...] = ()
    """Of many sinks, those that have an entry for the batch."""

    def to_dict(self) -> dict[str, Any]:
        return _camel_dict(asdict(self))


def inspect(view: CheckpointView) -> CheckpointReport:
    """Describe a checkpoint. Entries that cannot be read are reported, not raised."""
    newest = view.newest_batch
    entry = view.offsets.entries.get(newest) if newest is not None else None
    metadata = entry.metadata if entry else None
    return CheckpointReport(
        path=str(view.root),
        query_id=view.query_id,
        offset_log_versions=tuple(sorted({e.version for e in view.offsets.entries.values()})),
        commit_log_versions=tuple(sorted({c.version for c in view.commits.entries.values()})),
        next_batch=view.next_batch,
        is_planned=view.is_planned,
        batches=tuple(batch_report(view, batch) for batch in view.offsets.ids),
        sources=_sources(view, newest, entry),
        settings=dict(metadata.conf) if metadata else {},
        operators=_operators(view),
        sizes=_sizes(view.root),
        rewind_targets=tuple(possible_targets(view)),
        undoable=_undoable(view.root),
        in_use=activity_of(view.root).holder,
        sinks=sink_reports(view),
    )


def _undoable(root: CheckpointPath) -> tuple[str, ...]:
    """The commands that can be undone, oldest first; none if a manifest cannot be read."""
    try:
        return tuple(backup.operation for backup in backups_of(root))
    except MalformedLogError:
        return ()


def inspect_batch(view: CheckpointView, batch: int) -> BatchDetail:
    """Describe one batch. Raises MissingBatchError if the offset log has no entry for it."""
    if batch not in view.offsets.ids:
        ids = view.offsets.ids
        held = f"it has {ids[0]} to {ids[-1]}" if ids else "it is empty"
        raise MissingBatchError(f"The offset log has no batch {batch}; {held}.")
    entry = view.offsets.entries.get(batch)
    before = view.offsets.entries.get(batch - 1)
    commit = view.commits.entries.get(batch)
    has_state = not view.state.is_empty
    return BatchDetail(
        batch=batch_report(view, batch),
        start=_named(before) if before else ({} if batch == 0 else None),
        settings=dict(entry.metadata.conf) if entry and entry.metadata else {},
        reads_state_version=batch if has_state else None,
        reads_state_missing=tuple(view.state.missing(batch, _partitions(before or entry))),
        writes_state_version=batch + 1 if has_state else None,
        writes_state_missing=tuple(view.state.missing(batch + 1, _partitions(entry))),
        files=_input_files(view, batch),
        commit=json.loads(commit.json) if commit else None,
        positions=_positions(_named(before) if before else {}, _named(entry) if entry else {}),
        finished_sinks=finished_sinks(view, batch),
    )


def batch_report(view: CheckpointView, batch: int) -> BatchReport:
    """Describe one batch, from those of its entries that can be read."""
    entry = view.offsets.entries.get(batch)
    before = view.offsets.entries.get(batch - 1)
    commit = view.commits.entries.get(batch)
    is_committed = batch in view.commits.ids
    problem = view.offsets.problem(batch) or view.commits.problem(batch)
    metadata = entry.metadata if entry else None
    offsets = _named(entry) if entry else {}
    starts = _named(before) if before else {}
    known = before is not None or batch == 0
    return BatchReport(
        id=batch,
        status="unreadable" if problem else "committed" if is_committed else "planned",
        planned_at_ms=(metadata.batch_timestamp_ms or None) if metadata else None,
        committed_at_ms=_modified_ms(view.root / "commits" / str(batch)),
        watermark_ms=metadata.batch_watermark_ms if metadata else 0,
        next_watermark_ms=commit.next_batch_watermark_ms if commit else None,
        offsets=offsets,
        moved={n: movement(starts.get(n), offsets[n]) if known else "?" for n in offsets},
        problem=problem,
    )


def _named(entry: OffsetSeq) -> dict[str, str | None]:
    return dict(sorted(zip(entry.source_names, entry.offsets, strict=True)))


def _sources(
    view: CheckpointView, newest: int | None, entry: OffsetSeq | None
) -> tuple[SourceReport, ...]:
    if newest is None or entry is None:
        return ()
    report = batch_report(view, newest)
    found = []
    for name, offset in report.offsets.items():
        size = _size(view.root / "sources" / name, name)
        moved = report.moved[name]
        found.append(
            SourceReport(
                name,
                kind_of(offset),
                offset,
                moved,
                size.files,
                size.bytes,
                position_in(offset),
            )
        )
    return tuple(found)


def _positions(
    starts: Mapping[str, str | None], ends: Mapping[str, str | None]
) -> dict[str, dict[str, Any]]:
    """The positions between which a batch reads, of the sources whose offsets are known."""
    found: dict[str, dict[str, Any]] = {}
    for name, end in ends.items():
        start = starts.get(name)
        if (partitions := partition_changes(start, end)) is not None:
            found[name] = {"partitions": partitions}
        elif (position := position_in(end)) is not None:
            found[name] = {"start": position_in(start), "end": position}
    return found


def _operators(view: CheckpointView) -> tuple[OperatorReport, ...]:
    newest = view.newest_batch
    now = _partitions(None if newest is None else view.offsets.entries.get(newest))
    found = []
    for operator in view.state.operators:
        expected = operator.expected_partitions(now)
        found.append(
            OperatorReport(
                id=operator.id,
                name=operator.name,
                provider=operator.provider,
                partitions=sum(number < expected for number in operator.partitions),
                recorded_partitions=expected,
                stores=operator.store_names or tuple(sorted({s.name for s in operator.stores})),
                versions=tuple(_versions(view, operator)),
                bytes=_size(operator.path, "").bytes,
            )
        )
    return tuple(found)


def _versions(view: CheckpointView, operator: StateOperator) -> Iterator[int]:
    """The versions that every store of every partition can load, ascending."""
    for version in sorted({v for store in operator.stores for v in store.by_version}):
        written_by = view.offsets.entries.get(version - 1)
        if not operator.missing(version, _partitions(written_by)):
            yield version


def _partitions(entry: OffsetSeq | None) -> int | None:
    return recorded_partitions(entry) if entry else None


def _input_files(view: CheckpointView, batch: int) -> dict[str, tuple[str, ...]]:
    """The input files of every file source whose log still has all of them."""
    entry, before = view.offsets.entries.get(batch), view.offsets.entries.get(batch - 1)
    if entry is None or (before is None and batch > 0):
        return {}
    try:
        oldest = Targets(view).oldest_entry
    except MalformedLogError:  # of a manifest: it is not known when the sources were changed
        return {}
    if max(batch - 1, 0) < oldest:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(entry.source_names):
        log = CompactibleLog.scan(view.root / "sources" / name)
        first = log_offset(offset_of(before, name) if before else None)
        last = log_offset(offset_of(entry, name))
        if first is None or last is None or not log.is_file_log:
            continue
        with suppress(CheckpointError):
            paths = [logged["path"] for logged in log.entries_between(first, last)]
            found[name] = tuple(paths[:_LISTED_FILES])
    return found


def _sizes(root: CheckpointPath) -> tuple[PartSize, ...]:
    parts = [part for part in (*sorted(PARTS), OWN_DIRECTORY) if (root / part).is_dir()]
    return tuple(_size(root / part, part) for part in parts)


def _size(path: CheckpointPath, name: str) -> PartSize:
    """The number and size of all files below a directory, without those removed meanwhile."""
    sizes = [size for file in files_below(path) if (size := _bytes_of(file)) is not None]
    return PartSize(name, len(sizes), sum(sizes))


def _bytes_of(path: CheckpointPath) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _modified_ms(path: CheckpointPath) -> int | None:
    try:
        return int(path.stat().st_mtime * 1000)
    except FileNotFoundError:
        return None


def _camel_dict(value: dict[str, Any]) -> dict[str, Any]:
    """Convert field names to camelCase, as in all JSON of a checkpoint; not keys of mappings."""
    return {_camel_name(k): v if k in _MAPPINGS else _camel(v) for k, v in value.items()}


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return _camel_dict(value)
    return [_camel(item) for item in value] if isinstance(value, list | tuple) else value


def _camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
