"""Whether a query is at work on a checkpoint.

A Penstock query holds an advisory lock on `.penstock/lock` for as long as it runs; the operating
system drops it with the process, so it is never stale. Spark's own engine holds nothing that can be
seen from outside. All that can be said of it is when its logs last grew: a log that grew a moment
ago is taken for a running query unless the user says it is stopped. A query with a trigger interval
longer than that moment is not noticed, and neither is a lock on another machine where the file
system does not carry `flock` across machines.
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
    """Signs of a query at work."""

    holder: str | None
    newest_file: str | None
    seconds_ago: float | None

    @property
    def is_recent(self) -> bool:
        """Whether a log has grown so recently that a query may still be running."""
        return self.seconds_ago is not None and self.seconds_ago < RECENT_SECONDS

    @property
    def warning(self) -> str | None:
        """What to tell somebody who is about to change the checkpoint; None for no sign of life."""
        if self.holder is not None:
            return f"In use by {self.holder}."
        if self.is_recent:
            return (
                f"{self.newest_file} was written {self.seconds_ago:.0f} s ago. Spark's own "
                "engine leaves no lock, so a query may still be running here. Stop it first; if it "
                "is stopped, say so with --stopped."
            )
        return None


def activity_of(root: Path, now: float | None = None) -> Activity:
    """Look for a query at work, changing nothing.

    What was written before a command of ours ended was looked at then, or written by it.
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
    """Hold the checkpoint for a change. Raises CheckpointInUseError if a query may be running.

    `stopped` is the user's word that none is, which counts against a log that has just grown but
    not against a lock that is held.
    """
    activity = activity_of(root)
    if activity.warning is not None and not (stopped and activity.holder is None):
        raise CheckpointInUseError(activity.warning)
    with CheckpointLock(root, f"penstock checkpoint {operation}"):
        yield


def _last_command(root: Path) -> float:
    return max(map(_modified, manifests_of(root)), default=0.0)


def _modified(path: Path) -> float:
    """When a file was written; 0 for one that a running query has purged meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _files(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if path.name.isdigit())
