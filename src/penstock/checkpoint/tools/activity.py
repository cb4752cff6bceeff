"""Detects whether a query is running on a checkpoint.

A Penstock query holds the advisory lock while it runs; see `lock`. Spark's own engine holds no
lock, so only the age of the newest log entry is known: if it is younger than RECENT_SECONDS a query
is assumed to be running, unless the user says that it is stopped. A Spark query with a longer
trigger interval is not detected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.lock import CheckpointLock, current_holder
from penstock.checkpoint.own_files import manifests_of
from penstock.errors import CheckpointInUseError

RECENT_SECONDS = 60.0


@dataclass(frozen=True)
class Activity:
    """Signs of a running query."""

    holder: str | None
    newest_file: str | None
    seconds_ago: float | None

    @property
    def is_recent(self) -> bool:
        """Whether the newest log entry is so recent that a query may still be running."""
        return self.seconds_ago is not None and self.seconds_ago < RECENT_SECONDS

    @property
    def warning(self) -> str | None:
        """The warning for a command that changes the checkpoint; None without signs of a query."""
        if self.holder is not None:
            return f"In use by {self.holder}."
        if self.is_recent:
            return (
                f"{self.newest_file} was written {self.seconds_ago:.0f} s ago. Spark's own "
                "engine holds no lock, so a query may still be running here. Stop it first; if it "
                "is stopped, add --stopped."
            )
        return None


def activity_of(root: Path, now: float | None = None) -> Activity:
    """Look for signs of a running query, without changing anything.

    Entries that are older than the last `penstock checkpoint` command do not count: that command
    has checked them or has written them itself.
    """
    newest: Path | None = None
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
    return Activity(current_holder(root), name, None if newest is None else clock - newest_time)


@contextmanager
def exclusive(root: Path, operation: str, *, stopped: bool) -> Iterator[None]:
    """Hold the lock during a change. Raises CheckpointInUseError if a query may be running.

    With `stopped`, the user's assurance that no query is running, recent log entries are ignored;
    a lock that is held is not.
    """
    activity = activity_of(root)
    if activity.warning is not None and not (stopped and activity.holder is None):
        raise CheckpointInUseError(activity.warning)
    with CheckpointLock(root, f"penstock checkpoint {operation}"):
        yield


def _last_command(root: Path) -> float:
    return max(map(_modified, manifests_of(root)), default=0.0)


def _modified(path: Path) -> float:
    """The modification time of a file; 0 if a running query has purged it in the meantime."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _files(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if path.name.isdigit())
