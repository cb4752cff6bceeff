"""Detects whether a query is running on a checkpoint.

A Penstock query holds the advisory lock while it runs; see `lock` and, for a checkpoint in an
object store, `store_lock`. Spark's own engine holds no lock, so only the age of the newest log
entry is known: if it is younger than RECENT_SECONDS a query is assumed to be running, unless the
user says that it is stopped. A Spark query with a longer trigger interval is not detected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.lock import CheckpointLock, current_holder, is_command, owner_of
from penstock.checkpoint.own_files import interrupted_command, manifests_of
from penstock.checkpoint.paths import CheckpointPath, fresh
from penstock.checkpoint.store_lock import (
    CHANGED,
    CHANGING,
    IF_ENDED,
    RUNNING,
    StoreLock,
    holder_in,
    store_holder,
)
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import moves
from penstock.checkpoint.tools.backup import remedy_of
from penstock.checkpoint.tools.locations import files_at
from penstock.errors import CheckpointError, CheckpointInUseError, SurgeryRefusedError

RECENT_SECONDS = 60.0

_STOP_FIRST = "Stop it first; if it is stopped, add --stopped."


@dataclass(frozen=True)
class Activity:
    """Signs of a running query."""

    holder: str | None
    newest_file: str | None
    seconds_ago: float | None
    may_have_ended: bool = False
    """Whether the holder may have ended without a sign of it, as in an object store."""

    @property
    def command(self) -> str | None:
        """The `penstock checkpoint` command that is changing the checkpoint, if there is one."""
        return self.holder if self.holder is not None and is_command(self.holder) else None

    @property
    def is_recent(self) -> bool:
        """Whether the newest log entry is so recent that a query may still be running."""
        return self.seconds_ago is not None and self.seconds_ago < RECENT_SECONDS

    @property
    def sign(self) -> str | None:
        """What shows that a query may be running, without advice; None without signs of one."""
        if self.holder is not None:
            return f"In use by {self.holder}."
        if self.is_recent:
            return (
                f"{self.newest_file} was written {self.seconds_ago:.0f} s ago. Spark's own "
                "engine holds no lock, so a query may still be running here."
            )
        return None

    @property
    def warning(self) -> str | None:
        """The sign of a query and what to do about it, for a command that changes the checkpoint
        and has the option --stopped."""
        if self.holder is not None:
            return f"{self.sign} {IF_ENDED}" if self.may_have_ended else self.sign
        return f"{self.sign} {_STOP_FIRST}" if self.is_recent else None

    def warning_of_preview(self, *, stopped: bool) -> str | None:
        """The warning for a command that only shows its changes.

        With `stopped`, the user's assurance that no query is running, only a lock is mentioned.
        """
        if not stopped:
            return self.warning
        return self.sign if self.holder is not None else None


def activity_of(root: CheckpointPath, now: float | None = None) -> Activity:
    """Look for signs of a running query, without changing anything.

    Entries that are older than the last `penstock checkpoint` command do not count: that command
    has checked them or has written them itself.
    """
    in_store = isinstance(root, StorePath)
    root = fresh(root)
    newest: CheckpointPath | None = None
    newest_time = 0.0
    for log in ("offsets", "commits"):
        for path in _files(root / log):
            modified = _modified(path)
            if modified > newest_time:
                newest, newest_time = path, modified
    if newest_time <= _last_command(root):
        newest = None
    clock = time.time() if now is None else now
    name = None if newest is None else newest.relative_to(root).as_posix()
    holder = store_holder(files_at(root)) if in_store else current_holder(root)
    seconds = None if newest is None else clock - newest_time
    return Activity(holder, name, seconds, may_have_ended=in_store)


@contextmanager
def exclusive(root: CheckpointPath, operation: str, *, stopped: bool) -> Iterator[None]:
    """Hold the lock during a change. Raises CheckpointInUseError if a query may be running.

    With `stopped`, the user's assurance that no query is running, recent log entries are ignored,
    and in an object store also the records of other processes. A local lock that is held is not.

    In an object store the lock stays if the command did not finish and could not be undone.
    """
    activity = activity_of(root)
    can_be_overridden = activity.holder is None or activity.may_have_ended
    if activity.warning is not None and not (stopped and can_be_overridden):
        raise CheckpointInUseError(activity.warning)
    owner = owner_of(operation)
    if not isinstance(root, StorePath):
        with CheckpointLock(str(root), owner):
            yield
        return
    lock = StoreLock(files_at(root.fresh()), owner)
    lock.acquire(stopped=stopped)
    try:
        yield
    except BaseException:
        with suppress(OSError, CheckpointError):
            _release_unless_interrupted(lock, root)
        raise
    _release_unless_interrupted(lock, root)


def _release_unless_interrupted(lock: StoreLock, root: StorePath) -> None:
    root = root.fresh()
    if interrupted_command(root) is None:
        record_change(root)
        lock.release()


def record_change(root: StorePath) -> None:
    """Record that a command has finished: what it has copied is no sign of a query."""
    moves.write_over(root / CHANGED, b"A penstock checkpoint command has finished.\n")


def remove_locks(root: CheckpointPath, *, yes: bool) -> list[str]:
    """The processes whose locks an object store has; with `yes` their locks are removed.

    Raises SurgeryRefusedError if a command was interrupted: the lock stays until it is undone. And
    for a local directory that is locked, because there the process is running.
    """
    if not isinstance(root, StorePath):
        holder = current_holder(root)
        if holder is None:
            return []
        raise SurgeryRefusedError(
            f"{root} is in use by {holder}. A lock on a local directory ends with its process: "
            "stop it."
        )
    unfinished = interrupted_command(root)
    if unfinished is not None:
        raise SurgeryRefusedError(
            f"`penstock checkpoint {unfinished.operation}` was interrupted, or is still running. "
            f"If it is not, end it: {remedy_of(root)}"
        )
    files = files_at(root)
    held = {name: holder for name in (CHANGING, RUNNING) if (holder := holder_in(files, name))}
    if yes and held:
        files.delete_many(list(held))
    return list(held.values())


def _last_command(root: CheckpointPath) -> float:
    return max(map(_modified, (*manifests_of(root), root / CHANGED)))


def _modified(path: CheckpointPath) -> float:
    """The modification time of a file; 0 if a running query has purged it in the meantime."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _files(directory: CheckpointPath) -> Iterator[CheckpointPath]:
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if file_number(path.name) is not None)
