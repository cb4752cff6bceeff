"""Detects a checkpoint that was deleted or replaced during a run, before each write to a log."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.checkpoint.files import CheckpointFiles
from penstock.errors import CheckpointVanishedError

_OF_SPARK = ("sources", "state")
_PLANNED = "offsets"

TRUSTED_SECONDS = 10.0
"""How long a check on an object store is valid for entries other than those of the offset log."""


class KnownFiles:
    """The files that a run expects in its checkpoint: the query id, the newest entry of each log
    that this run has read or written, and the directories `sources` and `state`.

    A log entry is written only if all of them are unchanged. A checkpoint that was deleted,
    unmounted, or replaced by an empty directory, by an older copy or by that of another query is
    thus detected before anything is written to its location.

    Entries that this run has neither read nor written are not expected.

    On an object store, where every comparison is a request, only the newest entry of the offset log
    is compared, before each entry of that log; before other entries only if the last comparison is
    older than TRUSTED_SECONDS (docs/adr/0021).
    """

    def __init__(self, files: CheckpointFiles, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock in seconds."""
        self._files = files
        self._now = now
        self._checked_at: float | None = None
        self._known: dict[str, tuple[int, str, bytes]] = {}
        self._pins: dict[str, Callable[[], bool]] = {}

    def remember(self, kind: str, number: int, name: str, data: bytes) -> None:
        """Expect a file from now on, and no longer one of the same kind with a lower number."""
        known = self._known.get(kind)
        if known is None or known[0] <= number:
            self._known[kind] = number, name, data

    def forget(self, kind: str, number: int) -> None:
        """Stop expecting a file that this run is about to remove itself."""
        known = self._known.get(kind)
        if known is not None and known[0] == number:
            del self._known[kind]

    def require_for(self, log: str) -> None:
        """Check what has to be checked before an entry is added to a log.

        Raises CheckpointVanishedError, as `require` does.
        """
        if not self._files.is_object_store:
            self.require()
        elif log == _PLANNED or not self._was_checked_recently():
            self._require_newest_plan()

    def _was_checked_recently(self) -> bool:
        return self._checked_at is not None and self._now() - self._checked_at < TRUSTED_SECONDS

    def _require_newest_plan(self) -> None:
        """Check the newest entry of the offset log; before the first one, all files."""
        if _PLANNED not in self._known:
            self.require()
            return
        _, name, data = self._known[_PLANNED]
        now = self._now()
        if not self._files.holds(name, data):
            raise vanished(self._files, name)
        self._checked_at = now

    def require(self) -> None:
        """Raise CheckpointVanishedError, with the path, if a file is missing or changed."""
        now = self._now()
        for _, name, data in list(self._known.values()):
            if not self._files.holds(name, data):
                raise vanished(self._files, name)
        for directory in _OF_SPARK:
            self._require_directory(directory)
        self._checked_at = now

    def release(self) -> None:
        """Close the directories that are held open. Called at the end of a run."""
        self._pins.clear()

    def _require_directory(self, name: str) -> None:
        """Check a directory of Spark's, once it exists: if it is gone, Spark would recreate it."""
        pin = self._pins.get(name)
        if pin is None:
            pin = self._files.pin(name)
            if pin is not None:
                self._pins[name] = pin
        elif not pin():
            raise vanished(self._files, name)


def vanished(files: CheckpointFiles, name: str) -> CheckpointVanishedError:
    """The error for a file or directory of the checkpoint that was deleted or replaced."""
    path = files.path(name)
    what = (
        f"{path} is not what this run has read or written: it was replaced"
        if files.exists(name)
        else f"{path} is gone"
    )
    return CheckpointVanishedError(
        f"{what}. The checkpoint {files.root} was there before, when this run read or wrote it; it "
        "has been deleted, moved, unmounted or replaced since. Nothing was written to this "
        "location. Restore the checkpoint (remove what replaced it, mount the disk again) and "
        "start the query again: it continues from that checkpoint."
    )
