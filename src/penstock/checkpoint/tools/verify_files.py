"""Checks of other files than the two logs: checksums, state, logs of sources, leftovers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.checkpoint.local_files import file_of, is_twin
from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.paths import CheckpointPath, files_below, opened
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import schema_paths
from penstock.checkpoint.tools.checksums import disagreement
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.checkpoint.tools.findings import Finding, Severity
from penstock.checkpoint.tools.state_files import StateOperator
from penstock.checkpoint.tools.surgery import is_ahead, offset_of
from penstock.checkpoint.tools.targets import possible_targets, recorded_partitions
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError

_SAME = "the same"
_IGNORES = "ignores it"


def check_checksums(view: CheckpointView) -> Iterator[Finding]:
    """Checksum files that do not match their file, or whose file does not exist."""
    for twin in _named(view, is_twin):
        file = file_of(twin)
        if not file.exists():
            yield _orphan(view, file, twin)
        elif (why := disagreement(file, twin)) is not None:
            yield _disagreeing(view, file, twin, why)


def _named(view: CheckpointView, is_wanted: Callable[[str], bool]) -> list[CheckpointPath]:
    """The files at any depth with a name of some form, except Penstock's own."""
    return sorted(
        path
        for path in files_below(view.root)
        if is_wanted(path.name) and OWN_DIRECTORY not in path.relative_to(view.root).parts
    )


def _removal(path: CheckpointPath) -> str:
    return f"remove {path}" if isinstance(path, StorePath) else f"rm {path}"


def _orphan(view: CheckpointView, file: CheckpointPath, twin: CheckpointPath) -> Finding:
    """A checksum file without its file. Hadoop then refuses to create the file, and Spark reports
    that as a concurrent query.
    """
    directory = view.relative(file.parent)
    if not is_ahead(file):
        return Finding(
            Severity.INFO,
            view.relative(twin),
            "The checksum of a file that does not exist.",
            _IGNORES,
            _IGNORES,
            f"none, or {_removal(twin)}",
        )
    message = f"Multiple streaming queries are concurrently using {directory}."
    own = directory in ("offsets", "commits")
    return Finding(
        Severity.ERROR,
        view.relative(twin),
        f"The checksum of {file.name}, which does not exist: a file was removed without it.",
        f"fails when it writes {directory}/{file.name}: {message}",
        "removes it and continues"
        if own
        else "may fail the same way, since Spark writes this file",
        _removal(twin),
    )


def _disagreeing(
    view: CheckpointView, file: CheckpointPath, twin: CheckpointPath, why: str
) -> Finding:
    """A checksum mismatch. Spark verifies checksums for RocksDB's files only."""
    compared = file.suffix in (".zip", ".sst")
    return Finding(
        Severity.ERROR if compared else Severity.WARNING,
        view.relative(twin),
        f"{view.relative(file)} does not match its checksum file: {why}.",
        "fails when it loads the file: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED]"
        if compared
        else "reads the file, without verifying it",
        "may fail the same way" if compared else _SAME,
        f"if the file was edited on purpose, {_removal(twin)}; else it is damaged: restore it",
    )


def check_state(view: CheckpointView) -> Iterator[Finding]:
    """The state version of the next batch can be loaded, and there are no later versions."""
    version = view.next_batch
    newest = view.newest_batch
    entry = view.offsets.entries.get(newest) if newest is not None else None
    if newest is None:
        yield from _state_before_first_batch(view)
        return
    commit = view.commits.entries.get(version - 1)
    ids = commit.state_unique_ids if commit else None
    partitions = recorded_partitions(entry) if entry else None
    for operator in view.state.operators:
        missing = operator.missing(version, partitions, ids)
        if missing:
            yield _missing_state(view, operator, version, missing)
        else:
            yield from _missing_tables(view, operator, version)
    ahead = view.state.complete_beyond(version + 1 if view.is_planned else version)
    if ahead:
        stale = view.relative(ahead[0].path)
        yield Finding(
            Severity.ERROR,
            stale,
            f"State of version {ahead[0].version} exists, but the logs have no batch that wrote it "
            f"({len(ahead)} such files). Log entries were removed by hand.",
            f"runs; but when it has reached version {ahead[0].version} and restarts, it loads this "
            "file instead of its own: results are silently wrong",
            _SAME,
            _rewind_to_newest(view),
        )


def _state_before_first_batch(view: CheckpointView) -> Iterator[Finding]:
    if not view.state.is_empty:
        message = f"The checkpoint location {view.root}/state should be empty on batch 0"
        yield Finding(
            Severity.ERROR,
            "state",
            "There is state, but no batch in the offset log.",
            f"fails: {message}",
            f"fails: {message}",
            "restore the offset log, or start over in a new directory",
        )


def _missing_state(
    view: CheckpointView, operator: StateOperator, version: int, missing: list[str]
) -> Finding:
    if operator.provider == "RocksDB":
        error = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading streaming"
        message = f"{error} state file of .../{version}... does not exist"
    else:
        error = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta"
        message = f"{error} file .../{version}.delta ... does not exist"
    targets = [t for t in possible_targets(view) if t < version - 1]
    remedy = "restore the files from a backup"
    if targets:
        remedy += f", or penstock checkpoint rewind {view.root} --to {targets[-1]}"
    more = f" and {len(missing) - 1} more stores" if len(missing) > 1 else ""
    return Finding(
        Severity.ERROR,
        missing[0],
        f"Version {version}, which batch {version} reads, cannot be loaded here{more}.",
        f"fails in the first batch: {message}",
        _SAME,
        remedy,
    )


def _missing_tables(
    view: CheckpointView, operator: StateOperator, version: int
) -> Iterator[Finding]:
    """The SST files that the zip of a RocksDB version lists exist."""
    for store in operator.stores:
        complete = [f for f in store.files if f.kind == "zip" and f.version <= version]
        if not complete:
            continue
        newest = max(complete, key=lambda f: f.version)
        lost = _lost_tables(newest.path, store.path / "SSTs")
        if lost:
            yield Finding(
                Severity.ERROR,
                view.relative(newest.path),
                lost,
                "fails in the first batch when it loads the store",
                _SAME,
                "restore the file from a backup",
            )


def _lost_tables(path: CheckpointPath, directory: CheckpointPath) -> str | None:
    try:
        with opened(path) as stream, zipfile.ZipFile(stream) as archive:
            text = archive.read("metadata").decode()
        fields = json.loads(text.partition("\n")[2])
        names = [file["dfsSstFileName"] for file in fields.get("sstFiles", ())]
    except KeyError:
        return None
    except (zipfile.BadZipFile, ValueError, OSError) as exc:
        return f"The snapshot cannot be read: {exc}."
    lost = [name for name in names if not (directory / name).exists()]
    return f"It needs SSTs/{lost[0]}, which does not exist." if lost else None


def _rewind_to_newest(view: CheckpointView) -> str:
    committed = view.next_batch - 1
    if committed in possible_targets(view):
        return f"penstock checkpoint rewind {view.root} --to {committed} --yes removes them"
    return "restore the log entries from a backup"


def check_schema_paths(view: CheckpointView) -> Iterator[Finding]:
    """The schema files in operator metadata, which have full paths, are in this checkpoint."""
    for path in schema_paths.metadata_files(view.root):
        uris = schema_paths.schema_uris(path.read_text(errors="replace"))
        outside = [uri for uri in uris if not schema_paths.is_inside(uri, view.root)]
        if outside:
            yield _outside(view, path, outside[0])


def _outside(view: CheckpointView, path: CheckpointPath, uri: str) -> Finding:
    local = schema_paths.local_file(uri) if uri.startswith("file:") else None
    gone = local is not None and not local.exists()
    return Finding(
        Severity.ERROR if gone else Severity.WARNING,
        view.relative(path),
        f"It refers to a state schema in another directory: {local or uri}. This checkpoint was "
        "copied without adjusting the path.",
        f"fails: File file:{local} does not exist" if gone else "reads the other directory's file",
        _SAME,
        "copy checkpoints with penstock checkpoint fork, which adjusts the path",
    )


def check_file_sources(view: CheckpointView) -> Iterator[Finding]:
    """The own log of a file source has all entries that the next batch needs."""
    newest = view.newest_batch
    entry = view.offsets.entries.get(newest) if newest is not None else None
    if newest is None or entry is None:
        return
    before = view.offsets.entries.get(newest - 1)
    for directory in (view.root / "sources" / name for name in entry.source_names):
        log = CompactibleLog.scan(directory)
        end = log_offset(offset_of(entry, directory.name))
        if end is None or (log.files and not log.is_file_log):
            continue
        start = log_offset(offset_of(before, directory.name) if before else None)
        first = end if start is None else start + 1
        unread = {n for n in range(first, end + 1) if n not in log.files}
        for number in sorted({*log.missing_up_to(log.newest), *unread}):
            yield _missing_entry(view, directory, number)
        for number in log.files:
            try:
                log.entry_lines(number)
            except CheckpointError as exc:
                yield Finding(
                    Severity.ERROR,
                    view.relative(log.files[number]),
                    f"The source's log entry is truncated or damaged: {exc}",
                    "fails when the source starts: Incomplete log file, or a JSON error",
                    _SAME,
                    _newest_entry_remedy(log, number, end),
                )


def check_planned_files(view: CheckpointView) -> Iterator[Finding]:
    """The input files of the planned batch exist. Only local files are checked."""
    newest = view.newest_batch
    entry = view.offsets.entries.get(newest) if newest is not None else None
    if newest is None or entry is None or not view.is_planned:
        return
    before = view.offsets.entries.get(newest - 1)
    for directory in (view.root / "sources" / name for name in entry.source_names):
        log = CompactibleLog.scan(directory)
        end = log_offset(offset_of(entry, directory.name))
        start = log_offset(offset_of(before, directory.name) if before else None)
        if end is None or start is None or not log.is_file_log:
            continue
        try:
            planned = log.entries_between(start, end)
        except CheckpointError:
            continue  # reported by check_file_sources
        paths = [path for file in planned if (path := _local_path(str(file.get("path"))))]
        lost = [path for path in paths if not path.exists()]
        if lost:
            yield _lost_input(view, directory, newest, lost)


def _local_path(uri: str) -> Path | None:
    """The local path of a URI in a file source's log; None if it is not local."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") and not parts.netloc else None


def _lost_input(
    view: CheckpointView, directory: CheckpointPath, batch: int, lost: list[Path]
) -> Finding:
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return Finding(
        Severity.ERROR,
        view.relative(directory),
        f"Batch {batch} is planned with {lost[0]}{more}, which does not exist any more.",
        f"finishes batch {batch} without the rows of the file, silently",
        _SAME,
        f"restore the file before the restart, or accept that its rows in batch {batch} are lost",
    )


def _missing_entry(view: CheckpointView, directory: CheckpointPath, number: int) -> Finding:
    path = directory / str(number)
    return Finding(
        Severity.ERROR,
        view.relative(path),
        "An entry of the file source's log is missing.",
        f"fails: {path} doesn't exist, or batches ({number}) don't exist",
        _SAME,
        "restore the file from a backup",
    )


def _newest_entry_remedy(log: CompactibleLog, number: int, end: int) -> str:
    if number == log.newest and number > end:
        return f"{_removal(log.files[number])}: no batch uses it yet, its files are planned again"
    return "restore the file from a backup"


def check_leftovers(view: CheckpointView) -> Iterator[Finding]:
    """Temporary files of writes that were interrupted."""
    for path in _named(view, lambda name: name.endswith(".tmp")):
        yield Finding(
            Severity.INFO,
            view.relative(path),
            "A temporary file of a write that was interrupted.",
            _IGNORES,
            _IGNORES,
            f"none, or {_removal(path)} while no query runs",
        )
