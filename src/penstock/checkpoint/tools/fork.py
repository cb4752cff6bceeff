"""A copy of a checkpoint that another query can continue from."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.local_files import LocalFiles, twin_of
from penstock.checkpoint.lock import owner_of
from penstock.checkpoint.own_files import BACKUPS, OWN_DIRECTORY, manifests_of
from penstock.checkpoint.paths import CheckpointPath, files_below, fresh, is_below
from penstock.checkpoint.store_lock import CHANGING, StoreLock, store_holder
from penstock.checkpoint.store_path import StorePath, in_parallel
from penstock.checkpoint.stream_metadata import FILE_NAME, StreamMetadata
from penstock.checkpoint.tools import backup, moves, schema_paths, store_moves
from penstock.checkpoint.tools.activity import Activity, activity_of, record_change
from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.checkpoint.tools.locations import NO_OPTIONS, files_at, location_of
from penstock.checkpoint.tools.surgery import rewind, source_directories
from penstock.checkpoint.tools.targets import Targets
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, CheckpointInUseError, SurgeryRefusedError

_LOGS = ("commits", "offsets")
"""What is copied last to a store, in this order: without it the copy does not start."""

_OF_VOLUMES = "lost+found"
"""A directory in the root of a volume, which only the administrator may read."""


@dataclass(frozen=True)
class Fork:
    """The result of a fork."""

    path: CheckpointPath
    query_id: str
    at: int | None
    next_batch: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "queryId": self.query_id,
            "at": self.at,
            "nextBatch": self.next_batch,
            "warnings": list(self.warnings),
        }


def fork(
    view: CheckpointView,
    location: str | CheckpointPath,
    at: int | None = None,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Fork:
    """Copy a checkpoint to a new directory under a new query id. The original is only read.

    With `at`, the copy continues after that batch; raises SurgeryRefusedError if it cannot be
    rewound to it. While a query may be running on the original, `at` is its newest committed batch,
    because later files may still change. Without `at`, a warning names every entry of the newest
    batches that cannot be read; raises SurgeryRefusedError if there are only commits. Raises
    CheckpointInUseError if a command changes the original, before or during the copy, and
    SurgeryRefusedError if one was interrupted: the copy, which has no backups, would not show that
    it is partly changed.

    Each of the two may be local or in an object store. A local copy is made under a temporary name
    and then renamed. In a store it is locked and gets its query id at last: if the process is
    killed before, Penstock and Spark 4.2 and newer refuse to start on what is there.
    """
    new = location_of(location, options)
    _require_free(view.root, new)
    warnings = [
        "Give the copy's query its own output. A file sink that already has batches with these "
        "ids skips them; any other sink would get the same input twice."
    ]
    activity = activity_of(view.root)
    commands = _finished_commands(view.root, activity)
    if at is None:
        at, found = _newest_of(view, new, activity)
        warnings += found
    if at is not None:
        rewind(view, at)
    with _draft_of(new) as draft:
        _copy(view, draft)
        if _finished_commands(fresh(view.root), activity_of(view.root)) != commands:
            raise CheckpointInUseError(
                f"{view.root} was changed by a command while it was copied. Repeat the fork."
            )
        if at is not None:
            backup.apply(draft, rewind(CheckpointView(draft), at))
            moves.remove(draft / (BACKUPS if isinstance(draft, StorePath) else OWN_DIRECTORY))
        warnings += _rebase_schema_paths(view.root, draft, new)
        identity = StreamMetadata.new()
        identity.write(files_at(draft))
        next_batch = CheckpointView(draft).next_batch
    return Fork(new, identity.id, at, next_batch, tuple(warnings))


@contextmanager
def _draft_of(new: CheckpointPath) -> Iterator[CheckpointPath]:
    """Where the copy is made. Afterwards it is at its place or, after an error, removed."""
    if isinstance(new, StorePath):
        with _locked(new) as draft:
            yield draft
    else:
        with _renamed_to(Path(str(new))) as draft:
            yield draft


@contextmanager
def _locked(new: StorePath) -> Iterator[CheckpointPath]:
    """A location in a store that no other process copies to or removes anything from.

    1. The lock of a command is created, if nobody has it.
    2. What is there now, apart from the lock, is of another process: nothing is done.
    3. The copy is made there. If it fails, everything but the lock is removed.
    4. The lock is released.
    """
    files = files_at(new.fresh())
    lock = StoreLock(files, owner_of("fork"))
    try:
        lock.acquire(stopped=False)  # 1
    except CheckpointInUseError as exc:
        holder = store_holder(files) or "another process"
        raise SurgeryRefusedError(f"{new} is in use by {holder}. Name another location.") from exc
    try:
        draft = new.fresh()
        if _names_of_copy(draft):  # 2
            raise _not_empty(new)
        try:
            yield draft  # 3
            record_change(draft)
        except BaseException:
            left = new.fresh()
            left.tree.delete(_names_of_copy(left))
            raise
    except BaseException:
        with suppress(OSError):
            lock.release()
        raise
    lock.release()  # 4


def _names_of_copy(location: StorePath) -> list[str]:
    return [name for name in location.tree.files() if name != CHANGING]


@contextmanager
def _renamed_to(new: Path) -> Iterator[CheckpointPath]:
    """A new directory that is durable before it gets its name. `new` may be a link to its place."""
    target = new.resolve()
    LocalFiles(target.parent).make_directory("")
    draft = target.with_name(f".{uuid.uuid4()}.forking")
    try:
        yield draft
        in_parallel(moves.sync, [draft, *draft.rglob("*")])
        if target.exists():
            target.rmdir()
        draft.rename(target)
        moves.sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fork_before(view: CheckpointView, location: str | CheckpointPath, batch: int) -> Fork:
    """Copy a checkpoint like `fork`, so that the copy plans batch `batch` next."""
    if batch > 0:
        return fork(view, location, at=batch - 1)
    made = fork(view, location)
    for name in ("offsets", "commits", "state"):
        if (made.path / name).exists():
            moves.remove(made.path / name)
    for directory in source_directories(CheckpointView(made.path)):
        if CompactibleLog.scan(directory).is_file_log:
            moves.remove(directory)
    return replace(made, at=None, next_batch=0)


def _newest_of(
    view: CheckpointView, new: CheckpointPath, activity: Activity
) -> tuple[int | None, list[str]]:
    """The batch at which to fork if the user names none, None for all batches, and warnings."""
    committed = view.commits.newest  # listed before the offsets, which a query writes first
    if committed is not None and view.newest_batch is None:
        raise SurgeryRefusedError(
            f"{view.root} cannot be forked: batch {committed} is committed, but the offset log is "
            "empty or missing, so no query could start on the fork. Restore the directory offsets "
            "from another copy of the checkpoint, or start a new query with a new checkpoint."
        )
    if activity.sign is None or committed is None:
        more = f"({checkpoint_command('verify', new)} says what to do)"
        return None, [f"A query fails on the copy {more}: {p}" for p in _problems_of_restart(view)]
    more = f"({checkpoint_command('verify', view.root)} says what to do)"
    unreadable = [batch for batch in view.offsets.failures if batch > committed]
    return committed, [
        f"{activity.sign} The copy was made at batch {committed}.",
        *(
            f"The copy does not have batch {batch}, and its query plans that batch anew: the entry "
            f"of the original cannot be read {more}: {view.offsets.problem(batch)}"
            for batch in unreadable
        ),
    ]


def _problems_of_restart(view: CheckpointView) -> list[str]:
    """Why a restart fails, as far as the newest entries of the two logs tell."""
    committed, newest = view.commits.newest, view.newest_batch
    if newest is None:
        return []
    reads: list[Callable[[], object]] = [partial(view.entry, newest)]
    if newest > 0:
        reads.append(partial(view.entry, newest - 1))
    if committed is not None:
        reads.append(partial(view.commit, committed))
    problems = []
    for read in reads:
        try:
            read()
        except CheckpointError as exc:
            problems.append(str(exc))
    if committed is not None and committed > newest:
        problems.append(f"batch {committed} is committed, but the offset log is at {newest}.")
    return problems


def _finished_commands(root: CheckpointPath, activity: Activity) -> list[tuple[str, float]]:
    """The backups of a checkpoint and their times. Raises if a command has not finished."""
    if activity.command is not None:
        ended = f" If that process has ended: {checkpoint_command('unlock', root, '--yes')}"
        raise CheckpointInUseError(
            f"{root} is being changed by {activity.command}. Repeat the fork when it has finished."
            + (ended if activity.may_have_ended else "")
        )
    backup.refuse_interrupted(root)
    return [(str(manifest), manifest.stat().st_mtime) for manifest in manifests_of(root)]


def _require_free(root: CheckpointPath, new: CheckpointPath) -> None:
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise _not_empty(new)
    place, original = _resolved(new), _resolved(root)
    if is_below(place, original) or is_below(original, place):
        raise SurgeryRefusedError(
            f"One of {new} and {root} is inside the other. Name another directory."
        )


def _not_empty(new: CheckpointPath) -> SurgeryRefusedError:
    return SurgeryRefusedError(f"{new} is not empty. Name a directory that does not exist.")


def _resolved(path: CheckpointPath) -> CheckpointPath:
    """The path without links and `..`."""
    return path.resolve() if isinstance(path, Path) else path


def _copy(view: CheckpointView, draft: CheckpointPath) -> None:
    """Copy a checkpoint. Symbolic links are followed, since the copy is going to be changed.

    The backups are left out, and so are entries from before a change of sources: without the
    backups, a rewind could not tell that these entries belong to other sources.
    """
    oldest = Targets(view).oldest_entry
    left_out = {_OF_VOLUMES, OWN_DIRECTORY, FILE_NAME, twin_of(Path(FILE_NAME)).name}
    for log, ids in (("offsets", view.offsets.ids), ("commits", view.commits.ids)):
        old = [Path(log, str(batch)) for batch in ids if batch < oldest]
        left_out |= {str(name) for path in old for name in (path, twin_of(path))}
    if isinstance(view.root, StorePath) or isinstance(draft, StorePath):
        _copy_files(view.root, draft, left_out)
    else:
        _copy_directory(Path(str(view.root)), Path(str(draft)), left_out)


def _copy_directory(root: Path, draft: Path, left_out: set[str]) -> None:
    def ignored(directory: str, names: list[str]) -> set[str]:
        inside = Path(directory).relative_to(root)
        return {
            name
            for name in names
            if name == draft.name or name.endswith(".tmp") or str(inside / name) in left_out
        }

    try:
        shutil.copytree(root, draft, ignore=ignored, copy_function=_copy_unless_gone)
    except shutil.Error as exc:
        failures = [why for _, _, why in exc.args[0]]
        more = f", and {len(failures) - 1} more such errors" if len(failures) > 1 else ""
        raise CheckpointError(f"{root} cannot be copied: {failures[0]}{more}.") from exc


def _copy_files(root: CheckpointPath, draft: CheckpointPath, left_out: set[str]) -> None:
    """Copy file by file from or to a store, many at the same time; the logs at last."""
    groups: dict[str, list[str]] = {"": [], **{log: [] for log in _LOGS}}
    for path in files_below(root, left_out):
        name = path.relative_to(root).as_posix()
        if name not in left_out and not name.endswith(".tmp"):
            groups.get(name.partition("/")[0], groups[""]).append(name)
    for names in groups.values():
        in_parallel(lambda name: _copy_unless_gone(root / name, draft / name), names)


def _copy_unless_gone(source: Any, target: Any) -> None:
    """Copy a file unless a running query has purged it. Required files are checked later."""
    with suppress(FileNotFoundError):
        if isinstance(source, str):
            shutil.copy2(source, target)
        else:
            store_moves.copy_file(source, target)


def _rebase_schema_paths(
    root: CheckpointPath, draft: CheckpointPath, new: CheckpointPath
) -> list[str]:
    """Replace the full paths of schema files in operator metadata by those of the copy.

    Returns a warning if there are paths of another place than the original, which stay.
    """
    warnings = []
    for path in schema_paths.metadata_files(draft):
        text = path.read_text()
        rebased = schema_paths.rebased(text, root, new)
        if rebased != text:
            moves.write_over(path, rebased.encode())
            if twin_of(path).exists():
                moves.remove(twin_of(path))
        if any(not schema_paths.is_inside(uri, new) for uri in schema_paths.schema_uris(rebased)):
            warnings = [
                "The metadata of a stateful operator has schema files with a path that is not in "
                "this checkpoint; the path still refers to the original."
            ]
    return warnings
