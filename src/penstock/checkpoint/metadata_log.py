"""A log with one file per batch, written once."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.known_files import KnownFiles, vanished
from penstock.errors import (
    CheckpointError,
    MalformedLogError,
    MissingBatchError,
    UnsupportedLogVersionError,
)

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_CACHED_ENTRIES = 2
_PURGED_WITHOUT_LISTING = 3


class MetadataLog(ABC, Generic[T]):
    """The entries in a directory whose file names are batch ids.

    The newest two entries that were added or passed to `keep_in_memory` are cached; a running query
    reads no others. Files whose names are not batch ids are never read or removed.

    Not thread-safe, with one exception: `purge` may run on another thread beside `add` and `get`.
    """

    def __init__(
        self, files: CheckpointFiles, directory: str, known: KnownFiles | None = None
    ) -> None:
        """`known` has the files that this run expects in the checkpoint of this log."""
        self._files = files
        self._directory = directory
        self._known = known or KnownFiles(files)
        self._cache: dict[int, T] = {}
        self._last_purged = -1

    @abstractmethod
    def serialize(self, entry: T) -> bytes:
        """The file content of an entry."""

    @abstractmethod
    def deserialize(self, data: bytes) -> T:
        """Parse a file's content. Raises MalformedLogError or UnsupportedLogVersionError."""

    def make_directory(self) -> None:
        """Create the log's directory if it does not exist. Called once, when a query starts."""
        self._files.make_directory(self._directory)

    def add(self, batch_id: int, entry: T) -> bool:
        """Write the entry of a batch. Returns False, without a change, if it exists.

        Raises CheckpointVanishedError, without a change, if a file that this run expects in the
        checkpoint, or the log's directory, was deleted or replaced.
        """
        if batch_id in self._cache:
            return False
        self._known.require_for(self._directory)
        data = self.serialize(entry)
        try:
            if not self._files.create_if_absent(self._name(batch_id), data):
                return False
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise vanished(self._files, self._directory) from exc
        self._remember(batch_id, data)
        self.keep_in_memory(batch_id, entry)
        return True

    def keep_in_memory(self, batch_id: int, entry: T) -> None:
        """Cache an entry, as long as it is one of the newest two.

        For a run that continues from entries it has read: later reads must return the same ones.
        """
        # A new dictionary, since another thread may be reading the old one.
        entries = {**self._cache, batch_id: entry}
        self._cache = {k: entries[k] for k in sorted(entries)[-_CACHED_ENTRIES:]}

    def get(self, batch_id: int) -> T | None:
        """The entry of a batch; None if it does not exist."""
        cached = self._cache.get(batch_id)
        if cached is not None:
            return cached
        try:
            data = self._files.read(self._name(batch_id))
        except FileNotFoundError:
            return None
        self._remember(batch_id, data)
        return self._deserialize_named(batch_id, data)

    def get_latest(self) -> tuple[int, T] | None:
        """The largest batch id and its entry; None if the log is empty."""
        ids = self.list_batches()
        if not ids:
            return None
        _logger.info("Getting latest batch %s", ids[-1])
        return ids[-1], self._get_existing(ids[-1])

    def list_batches(self) -> list[int]:
        """The batch ids of all entries, ascending."""
        names = self._files.list_names(self._directory)
        listed = {number for name in names if (number := file_number(name)) is not None}
        return sorted(listed | set(self._cache))

    def purge(self, before: int) -> None:
        """Remove every entry with a batch id below `before`. Idempotent."""
        candidates: Iterable[int] = range(self._last_purged + 1, before)
        usual = max(_PURGED_WITHOUT_LISTING, self._files.purged_at_once)
        if before - self._last_purged - 1 > usual:
            candidates = [batch_id for batch_id in self.list_batches() if batch_id < before]
        self._remove(candidates)
        self._last_purged = max(self._last_purged, before - 1)

    def path(self, batch_id: int) -> str:
        """The full path of a batch's file, for messages."""
        return self._files.path(self._name(batch_id))

    def _name(self, batch_id: int) -> str:
        return f"{self._directory}/{batch_id}"

    def _remember(self, batch_id: int, data: bytes) -> None:
        self._known.remember(self._directory, batch_id, self._name(batch_id), data)

    def _remove(self, batch_ids: Iterable[int]) -> None:
        removed = list(batch_ids)
        for batch_id in removed:
            self._known.forget(self._directory, batch_id)
        self._files.delete_many([self._name(batch_id) for batch_id in removed])
        if not self._cache.keys().isdisjoint(removed):
            self._cache = {k: v for k, v in self._cache.items() if k not in removed}
        for batch_id in removed:
            _logger.debug("Removed metadata log file: %s", self.path(batch_id))

    def _remedy_of_damaged(self, path: str) -> str:
        """What to do about an entry that cannot be parsed, for the message."""
        return (
            f"If {path} is the newest entry of its log and is empty or truncated (a crash while "
            "Spark wrote it to a file system without atomic rename), move it away and start the "
            "query again: the batch is then planned anew, or, if this is the commit log or the "
            "entry of a sink, run again as planned."
        )

    def _get_existing(self, batch_id: int) -> T:
        entry = self.get(batch_id)
        if entry is None:
            raise MissingBatchError(f"batch {batch_id} doesn't exist")
        return entry

    def _deserialize_named(self, batch_id: int, data: bytes) -> T:
        """Deserialize; an error names the file and what to do."""
        path = self.path(batch_id)
        try:
            return self.deserialize(data)
        except UnsupportedLogVersionError as exc:
            raise UnsupportedLogVersionError(f"Failed to read log file {path}. {exc}") from exc
        except MalformedLogError as exc:
            raise type(exc)(
                f"Failed to read log file {path}. {exc}\nNothing was changed. "
                + self._remedy_of_damaged(path)
            ) from exc
        except CheckpointError:
            raise
        except (ValueError, KeyError, TypeError) as exc:
            raise MalformedLogError(f"Failed to read log file {path}. {exc!r}") from exc
