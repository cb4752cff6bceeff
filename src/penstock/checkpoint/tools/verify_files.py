"""Checks of other files than the two logs: checksums, state, logs of sources, leftovers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.checkpoint.commands import checkpoint_command, command_line
from penstock.checkpoint.local_files import file_of, is_twin
from penstock.checkpoint.paths import CheckpointPath, opened
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import schema_paths
from penstock.checkpoint.tools.checksums import disagreement
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.checkpoint.tools.findings import Finding, Severity, remedy_of_intact
from penstock.checkpoint.tools.state_files import StateOperator, UniqueIds
from penstock.checkpoint.tools.surgery import is_ahead, offset_of, strangers_in_logs
from penstock.checkpoint.tools.targets import possible_targets, recorded_partitions
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MalformedLogError

_SAME = "the same"
_IGNORES = "ignores it"


def check_checksums(view: CheckpointView) -> Iterator[Finding]:
    """Checksum files that do not match their file, or whose file does not exist."""
    for twin in _named(view, is_twin):
        file = file_of(twin)
        if not file.exists():
            yield _orphan(view, file, twin)
        elif (why := _disagreement(file, twin)) is not None:
            yield _disagreeing(view, file, twin, why)


def _disagreement(file: CheckpointPath, twin: CheckpointPath) -> str | None:
    """As `disagreement`, but None if one of the files may not be read: if it matters, the checks
    that need its content report it."""
    with suppress(PermissionError):
        return disagreement(file, twin)
    return None


def _named(view: CheckpointView, is_wanted: Callable[[str], bool]) -> list[CheckpointPath]:
    """The files at any depth with a name of some form, except Penstock's own."""
    return sorted(path for path in view.files() if is_wanted(path.name))


def _removal(path: CheckpointPath) -> str:
    if isinstance(path, StorePath):
        return f"remove {path}"
    return command_line("rm", "-r", path) if path.is_dir() else command_line("rm", path)


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
    absent = view.state.absent(ids) if version > 0 else []
    for place in absent:
        yield _missing_state(view, _provider_of(view, ids), version, [place])
    for operator in view.state.operators:
        missing = operator.missing(version, partitions, ids)
        if missing:
            yield _missing_state(view, operator.provider, version, missing)
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
        message = not_empty(view, "state")
        yield Finding(
            Severity.ERROR,
            "state",
            "There is state, but no batch in the offset log.",
            f"4.1 and newer fail: {message}. Older versions start with batch 0 beside this state",
            f"fails: {message}",
            "restore the offset log, or start over in a new directory",
        )


def not_empty(view: CheckpointView, directory: str) -> str:
    """The error of both engines for a new query in a directory that is not empty."""
    return f"The checkpoint location {view.root}/{directory} should be empty on batch 0"


def _provider_of(view: CheckpointView, ids: UniqueIds | None) -> str:
    """The provider of the state, all of which has the same one. Only RocksDB has `ids`."""
    return "RocksDB" if ids else view.state.operators[-1].provider


def _missing_state(
    view: CheckpointView, provider: str, version: int, missing: list[str]
) -> Finding:
    if provider == "RocksDB":
        error = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading streaming"
        message = f"{error} state file of .../{version}... does not exist"
    else:
        error = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta"
        message = f"{error} file .../{version}.delta ... does not exist"
    targets = [t for t in possible_targets(view) if t < version - 1]
    remedy = "restore the files from a backup"
    if targets:
        remedy += f", or {checkpoint_command('rewind', view.root, '--to', targets[-1])}"
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
        command = checkpoint_command("rewind", view.root, "--to", committed, "--yes")
        return f"{command} removes them"
    return "restore the log entries from a backup"


def check_operator_metadata(view: CheckpointView) -> Iterator[Finding]:
    """The metadata of the operators can be parsed, and the schema files in them, which have full
    paths, are in this checkpoint."""
    first = sorted(view.root.glob("state/*/_metadata/metadata"))
    for path in (*first, *schema_paths.metadata_files(view.root)):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            schema_paths.parse_metadata(text)
        except (MalformedLogError, OSError) as exc:
            yield _damaged_metadata(view, path, exc)
            continue
        uris = schema_paths.schema_uris(text)
        outside = [uri for uri in uris if not schema_paths.is_inside(uri, view.root)]
        if outside:
            yield _outside(view, path, outside[0])


def _damaged_metadata(
    view: CheckpointView, path: CheckpointPath, error: MalformedLogError | OSError
) -> Finding:
    return Finding(
        Severity.WARNING,
        view.relative(path),
        str(error),
        "does not compare the operators with those of the query, and warns: Error reading metadata "
        "path for stateful operator. transformWithState may not find the schema of its state",
        _SAME,
        remedy_of_intact(error, path) or "restore the file from a backup",
    )


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
        if end is None or (log.files and not _is_file_log(log)):
            continue
        start = log_offset(offset_of(before, directory.name) if before else None)
        first = end if start is None else start + 1
        missing = log.missing_up_to(log.newest)
        # A gap in what the batch reads is within one of these or outside of all of them.
        missing += [
            gap
            for gap in log.gaps(range(first, end + 1))
            if not any(gap.start in other for other in missing)
        ]
        for gap in missing:
            yield _missing_entries(view, directory, gap)
        for number in log.files:
            try:
                log.entries(number)
            except (CheckpointError, OSError) as exc:
                intact = remedy_of_intact(exc, log.files[number])
                problem = "is truncated or damaged" if intact is None else "cannot be read"
                yield Finding(
                    Severity.ERROR,
                    view.relative(log.files[number]),
                    f"The source's log entry {problem}: {exc}",
                    "fails when the source starts: Incomplete log file, or a JSON error"
                    if intact is None
                    else "fails too, if it cannot read the file either",
                    _SAME,
                    intact or _newest_entry_remedy(log, number, end),
                )


def _is_file_log(log: CompactibleLog) -> bool:
    """As `is_file_log`; True if no file can be read: each of them is then reported."""
    try:
        return log.is_file_log
    except OSError:
        return True


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
        if end is None or start is None or not _is_file_log(log):
            continue
        try:
            planned = log.entries_between(start, end)
        except (CheckpointError, OSError):
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


def _missing_entries(view: CheckpointView, directory: CheckpointPath, gap: range) -> Finding:
    path = directory / str(gap.start)
    several = f" So are those up to {gap[-1]}." if len(gap) > 1 else ""
    return Finding(
        Severity.ERROR,
        view.relative(path),
        f"An entry of the file source's log is missing.{several}",
        f"fails: {path} doesn't exist, or batches ({gap.start}) don't exist",
        _SAME,
        "restore the file from a backup",
    )


def _newest_entry_remedy(log: CompactibleLog, number: int, end: int) -> str:
    if number == log.newest and number > end:
        return f"{_removal(log.files[number])}: no batch uses it yet, its files are planned again"
    return "restore the file from a backup"


def check_leftovers(view: CheckpointView) -> Iterator[Finding]:
    """Temporary files of writes that were interrupted, and what keeps Spark from starting."""
    strangers = strangers_in_logs(view) if view.newest_batch is None else []
    for path in strangers:
        yield Finding(
            Severity.WARNING,
            view.relative(path),
            "It is no entry of the log, and the offset log is empty.",
            f"4.1 and newer fail: {not_empty(view, path.parent.name)}. Older versions ignore it",
            _IGNORES,
            f"{_removal(path)} while no query runs",
        )
    for path in _named(view, lambda name: name.endswith(".tmp")):
        if path in strangers:
            continue
        yield Finding(
            Severity.INFO,
            view.relative(path),
            "A temporary file of a write that was interrupted.",
            _IGNORES,
            _IGNORES,
            f"none, or {_removal(path)} while no query runs",
        )
