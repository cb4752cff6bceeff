"""What a run knows to be in its checkpoint, and that it must still be there at the next write."""

from __future__ import annotations

from collections.abc import Callable

from penstock.checkpoint.files import CheckpointFiles
from penstock.errors import CheckpointVanishedError

_OF_SPARK = ("sources", "state")


class KnownFiles:
    """The query id and the newest entry of each log, as this run has read or written them, and the
    directories that Spark keeps beside them.

    An entry of a log is never written unless all of them are still there, byte for byte. So a
    checkpoint that was deleted, unmounted, or replaced by an empty directory, an older copy or
    another query's, is found out before anything is written into what is in its place.

    Entries that this run has neither read nor written are not looked for: they may never have
    been there.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._known: dict[str, tuple[int, str, bytes]] = {}
        self._pins: dict[str, Callable[[], bool]] = {}

    def remember(self, kind: str, number: int, name: str, data: bytes) -> None:
        """Expect a file from now on, instead of one of the same kind with a lower number."""
        known = self._known.get(kind)
        if known is None or known[0] <= number:
            self._known[kind] = number, name, data

    def forget(self, kind: str, number: int) -> None:
        """Stop expecting a file that this run is about to remove itself."""
        known = self._known.get(kind)
        if known is not None and known[0] == number:
            del self._known[kind]

    def require(self) -> None:
        """Raise CheckpointVanishedError, naming the path, for the first file that is not there."""
        for _, name, data in list(self._known.values()):
            if not self._files.holds(name, data):
                raise vanished(self._files, name)
        for directory in _OF_SPARK:
            self._require_directory(directory)

    def release(self) -> None:
        """Let go of the directories that are held open, when the run is over."""
        self._pins.clear()

    def _require_directory(self, name: str) -> None:
        """Spark makes these when it first needs them, and would make them again."""
        pin = self._pins.get(name)
        if pin is None:
            pin = self._files.pin(name)
            if pin is not None:
                self._pins[name] = pin
        elif not pin():
            raise vanished(self._files, name)


def vanished(files: CheckpointFiles, name: str) -> CheckpointVanishedError:
    """The error for a file or directory of the checkpoint that is not there any more."""
    path = files.path(name)
    what = (
        f"{path} is not what this run has read or written: another is in its place"
        if files.exists(name)
        else f"{path} is gone"
    )
    return CheckpointVanishedError(
        f"{what}. The checkpoint {files.root} was there before, when this run read or wrote it; it "
        "has been deleted, moved, unmounted or replaced since. Nothing was written to what is "
        "there now. Bring the checkpoint back (remove what is in its place, mount the disk again) "
        "and start the query again: it goes on from where the checkpoint is."
    )
