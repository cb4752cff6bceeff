"""Detects a checkpoint that was deleted or replaced during a run, before each write to a log."""

from __future__ import annotations

from collections.abc import Callable

from penstock.checkpoint.files import CheckpointFiles
from penstock.errors import CheckpointVanishedError

_OF_SPARK = ("sources", "state")


class KnownFiles:
    """The files that a run expects in its checkpoint: the query id, the newest entry of each log
    that this run has read or written, and the directories `sources` and `state`.

    A log entry is written only if all of them are unchanged. A checkpoint that was deleted,
    unmounted, or replaced by an empty directory, by an older copy or by that of another query is
    thus detected before anything is written to its location.

    Entries that this run has neither read nor written are not expected.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
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

    def require(self) -> None:
        """Raise CheckpointVanishedError, with the path, if a file is missing or changed."""
        for _, name, data in list(self._known.values()):
            if not self._files.holds(name, data):
                raise vanished(self._files, name)
        for directory in _OF_SPARK:
            self._require_directory(directory)

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
