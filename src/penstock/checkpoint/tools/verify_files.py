"""The checks of files beside the two logs: checksums, state, the logs of sources, leftovers."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.checkpoint.own_files import OWN_DIRECTORY
from penstock.checkpoint.tools.checksums import disagreement
from penstock.checkpoint.tools.compactible_log import CompactibleLog, log_offset
from penstock.checkpoint.tools.findings import Finding, Severity
from penstock.checkpoint.tools.state_files import StateOperator
from penstock.checkpoint.tools.surgery import is_ahead, offset_of
from penstock.checkpoint.tools.targets import possible_targets, recorded_partitions
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError

_SAME = "the same"
_IGNORES = "does not look at it"
_SCHEMA_PATH = re.compile(r'"file:([^"]*/_stateSchema/[^"]*)"')


def check_checksums(view: CheckpointView) -> Iterator[Finding]:
    """Checksum twins that disagree with their files, or have none."""
    for twin in sorted(view.root.rglob(".*.crc")):
        if OWN_DIRECTORY in twin.relative_to(view.root).parts or not twin.is_file():
            continue
        file = twin.with_name(twin.name[1 : -len(".crc")])
        if not file.exists():
            yield _orphan(view, file, twin)
        elif (why := disagreement(file, twin)) is not None:
            yield _disagreeing(view, file, twin, why)


def _orphan(view: CheckpointView, file: Path, twin: Path) -> Finding:
    """A twin without its file blocks the name: Spark takes the refusal for another query."""
    directory = view.relative(file.parent)
    if not is_ahead(file):
        return Finding(
            Severity.INFO,
            view.relative(twin),
            "The checksum of a file that is not there.",
            _IGNORES,
            _IGNORES,
            f"none, or rm {twin}",
        )
    message = f"Multiple streaming queries are concurrently using {directory}."
    own = directory in ("offsets", "commits")
    return Finding(
        Severity.ERROR,
        view.relative(twin),
        f"The checksum of {file.name}, which is yet to be written: a file was removed without it.",
        f"fails when it writes {directory}/{file.name}: {message}",
        "removes it and goes on" if own else "may fail the same way, since Spark writes this file",
        f"rm {twin}",
    )


def _disagreeing(view: CheckpointView, file: Path, twin: Path, why: str) -> Finding:
    """Spark reads RocksDB's files through a file system that compares, all others without."""
    compared = file.suffix in (".zip", ".sst")
    return Finding(
        Severity.ERROR if compared else Severity.WARNING,
        view.relative(twin),
        f"{view.relative(file)} does not pass its check: {why}.",
        "fails when it loads the file: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED]"
        if compared
        else "reads the file all the same",
        "may fail the same way" if compared else _SAME,
        f"if the file was edited on purpose, rm {twin}; else the file is damaged: restore it",
    )


def check_state(view: CheckpointView) -> Iterator[Finding]:
    """The version that the next batch reads can be loaded, and none lies ahead of the logs."""
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
            f"State of version {ahead[0].version} is on disk, but the logs know of no batch that "
            f"wrote it ({len(ahead)} such files). Entries of the logs were removed by hand.",
            f"runs; but once it has come to version {ahead[0].version} and restarts, it loads this "
            "file instead of what it wrote itself: results are silently wrong",
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
    """RocksDB keeps its tables beside the zip of a version, which only lists them."""
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


def _lost_tables(path: Path, directory: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read("metadata").decode()
        fields = json.loads(text.partition("\n")[2])
        names = [file["dfsSstFileName"] for file in fields.get("sstFiles", ())]
    except KeyError:
        return None
    except (zipfile.BadZipFile, ValueError, OSError) as exc:
        return f"The snapshot cannot be read: {exc}."
    lost = [name for name in names if not (directory / name).exists()]
    return f"It needs SSTs/{lost[0]}, which is not there." if lost else None


def _rewind_to_newest(view: CheckpointView) -> str:
    committed = view.next_batch - 1
    if committed in possible_targets(view):
        return f"penstock checkpoint rewind {view.root} --to {committed} --yes removes them"
    return "restore the log entries from a backup"


def check_schema_paths(view: CheckpointView) -> Iterator[Finding]:
    """Operator metadata names schema files by full path, which a plain copy leaves behind."""
    for path in sorted(view.root.glob("state/*/_metadata/v2/*")):
        if not path.name.isdigit():
            continue
        for named in _SCHEMA_PATH.findall(path.read_text(errors="replace")):
            target = Path("/" + named.lstrip("/"))
            if target.is_relative_to(view.root):
                continue
            gone = not target.exists()
            yield Finding(
                Severity.ERROR if gone else Severity.WARNING,
                view.relative(path),
                f"It names the state's schema in another directory: {target}. This checkpoint is a "
                "plain copy.",
                f"fails: File file:{target} does not exist"
                if gone
                else "reads the other directory's file",
                _SAME,
                "copy checkpoints with penstock checkpoint fork, which adjusts the path",
            )
            break


def check_file_sources(view: CheckpointView) -> Iterator[Finding]:
    """A file source's own log holds everything that the next batch asks of it."""
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
                    f"The source's log entry is torn or garbage: {exc}",
                    "fails when the source starts: Incomplete log file, or a JSON error",
                    _SAME,
                    _newest_entry_remedy(log, number, end),
                )


def check_planned_files(view: CheckpointView) -> Iterator[Finding]:
    """The files of the batch that runs again are there. Only a local disk is looked at."""
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
            continue  # told by the check of the log itself
        paths = [path for file in planned if (path := _local_path(str(file.get("path"))))]
        lost = [path for path in paths if not path.exists()]
        if lost:
            yield _lost_input(view, directory, newest, lost)


def _local_path(uri: str) -> Path | None:
    """The path behind the URI in an entry of a file source's log; None if it is not local."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") and not parts.netloc else None


def _lost_input(view: CheckpointView, directory: Path, batch: int, lost: list[Path]) -> Finding:
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return Finding(
        Severity.ERROR,
        view.relative(directory),
        f"Batch {batch} is planned with {lost[0]}{more}, which is not there any more.",
        f"finishes batch {batch} without the rows of the file, and says nothing",
        _SAME,
        f"put the file back before the restart, or accept that the rows of batch {batch} in it are "
        "lost",
    )


def _missing_entry(view: CheckpointView, directory: Path, number: int) -> Finding:
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
        return f"rm {log.files[number]}: no batch uses it yet, its files are planned again"
    return "restore the file from a backup"


def check_leftovers(view: CheckpointView) -> Iterator[Finding]:
    """Temporary files of writes that never finished."""
    for path in sorted(view.root.rglob("*.tmp")):
        if OWN_DIRECTORY in path.relative_to(view.root).parts:
            continue
        yield Finding(
            Severity.INFO,
            view.relative(path),
            "A temporary file of a write that was interrupted.",
            _IGNORES,
            _IGNORES,
            f"none, or rm {path} while no query runs",
        )
