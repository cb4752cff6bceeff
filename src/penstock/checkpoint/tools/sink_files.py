"""The entries of many sinks below a checkpoint, for the commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.sink_entries import SINK_NAMES, SINKS, SinkEntry, SinkNames
from penstock.checkpoint.tools.changes import Change, delete_files
from penstock.checkpoint.tools.findings import Finding, Severity, remedy_of_intact
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError

_NO_ENTRIES = "does not know these entries"


@dataclass(frozen=True)
class SinkReport:
    """One of many sinks. `has_planned_batch` is None if no batch is planned and uncommitted.

    `is_in_query` says whether the newest recorded names have it.
    """

    name: str
    is_in_query: bool
    entries: int
    newest_batch: int | None
    has_planned_batch: bool | None


def sink_reports(view: CheckpointView) -> tuple[SinkReport, ...]:
    """The sinks that are recorded, in order, then others that have entries."""
    newest = _newest_names(view)
    recorded = newest.names if newest else ()
    found = [path.name for path in _directories(view.root)]
    others = [n for n in found if n not in recorded and _batches(view.root, n)]
    reports = []
    for name in (*recorded, *others):
        batches = _batches(view.root, name)
        reports.append(
            SinkReport(
                name=name,
                is_in_query=name in recorded,
                entries=len(batches),
                newest_batch=max(batches, default=None),
                has_planned_batch=view.next_batch in batches if view.is_planned else None,
            )
        )
    return tuple(reports)


def finished_sinks(view: CheckpointView, batch: int) -> tuple[str, ...]:
    """The names of the sinks that have an entry for a batch."""
    return tuple(
        path.name for path in _directories(view.root) if batch in _batches(view.root, path.name)
    )


def waiting_sinks(view: CheckpointView) -> tuple[str, ...]:
    """The names of the sinks that have no entry for the planned batch."""
    return tuple(
        report.name
        for report in sink_reports(view)
        if report.is_in_query and report.has_planned_batch is False
    )


def cut_sinks(view: CheckpointView, batch: int) -> list[Change]:
    """Delete the entries of batches later than `batch`, and names that apply only after it.

    If they were kept, the sinks would skip the batches with these ids that are planned anew.
    """
    root = view.root
    entries = [
        root / SINKS / path.name / str(later)
        for path in _directories(root)
        for later in sorted(_batches(root, path.name), reverse=True)
        if later > batch
    ]
    records = [
        root / SINK_NAMES / str(number)
        for number, record in _names(view)
        if record is None or record.from_batch > batch + 1
    ]
    return delete_files(root, [*entries, *records])


def again_warning(view: CheckpointView, batch: int) -> tuple[str, ...]:
    """A warning that names the sinks whose entries of later batches are deleted."""
    names = [
        path.name
        for path in _directories(view.root)
        if any(later > batch for later in _batches(view.root, path.name))
    ]
    if not names:
        return ()
    return (
        f"The entries of the sinks {', '.join(names)} after batch {batch} are deleted: they get "
        "the batches with these ids again, possibly with other rows.",
    )


def check_sinks(view: CheckpointView) -> Iterator[Finding]:
    """A sink must have no entry for a batch that is not planned, or for another plan of it."""
    newest = -1 if view.newest_batch is None else view.newest_batch
    for path in _directories(view.root):
        batches = _batches(view.root, path.name)
        later = [batch for batch in batches if batch > newest]
        if later:
            yield Finding(
                Severity.ERROR,
                view.relative(path / str(later[-1])),
                f"The sink {path.name} has an entry for batch {later[-1]}, which is not planned.",
                _NO_ENTRIES,
                "refuses to start, if the query has this sink: it would skip the batch",
                checkpoint_command("rewind", view.root, "--to", newest, "--yes")
                if newest >= 0
                else f"remove {path / str(later[-1])}",
            )
        if view.is_planned and newest in batches:
            yield from _check_planned(view, path.name, newest)


def _check_planned(view: CheckpointView, name: str, batch: int) -> Iterator[Finding]:
    file = view.root / SINKS / name / str(batch)
    entry, error = _entry(view, name, batch)
    planned = view.offsets.entries.get(batch)
    metadata = planned.metadata if planned else None
    problem = None if error is None else str(error)
    if error is None and entry is not None and metadata is not None:
        if entry.batch_timestamp_ms == metadata.batch_timestamp_ms:
            return
        problem = f"The entry is of another plan of batch {batch}."
    yield Finding(
        Severity.ERROR,
        view.relative(file),
        problem or f"The plan of batch {batch} cannot be read.",
        _NO_ENTRIES,
        "refuses to start, if the query has this sink",
        (error and remedy_of_intact(error, file))
        or f"remove {file}: the sink {name} then gets batch {batch} as it is planned",
    )


def _entry(
    view: CheckpointView, name: str, batch: int
) -> tuple[SinkEntry | None, CheckpointError | OSError | None]:
    try:
        return view.directory.sink_log(name).get(batch), None
    except (CheckpointError, OSError) as exc:
        return None, exc


def _directories(root: CheckpointPath) -> list[CheckpointPath]:
    parent = root / SINKS
    return sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []


def _batches(root: CheckpointPath, name: str) -> list[int]:
    directory = root / SINKS / name
    if not directory.is_dir():
        return []
    numbers = (file_number(path.name) for path in directory.iterdir())
    return sorted(number for number in numbers if number is not None)


def _names(view: CheckpointView) -> list[tuple[int, SinkNames | None]]:
    """The records of names, oldest first; None for one that cannot be read."""
    records: list[tuple[int, SinkNames | None]] = []
    for number in view.directory.sink_names.list_batches():
        try:
            records.append((number, view.directory.sink_names.get(number)))
        except CheckpointError:
            records.append((number, None))
    return records


def _newest_names(view: CheckpointView) -> SinkNames | None:
    readable = [record for _, record in _names(view) if record is not None]
    return readable[-1] if readable else None
