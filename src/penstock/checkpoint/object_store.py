"""Checkpoint files in an object store: one conditional request for each new file.

An object store has no directories and no rename. A file is there completely or not at all, every
reader sees it as soon as the write has returned, and the store refuses to create it a second time.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from penstock.checkpoint.files import CheckpointFiles

_logger = logging.getLogger(__name__)

_ATTEMPTS = 3


class ObjectStore(ABC):
    """The requests that checkpoint files need, below one root. Names are as in CheckpointFiles.

    A request that fails raises an OSError. It has been repeated before, as often as the client of
    the store is configured to.
    """

    keeps_marks: bool
    """Whether `mark_of` returns what `put_if_absent` was given."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The root as a URI, for messages and for Spark."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes, mark: str) -> None:
        """Create an object, in one request; `mark` is stored beside the data, not in it.

        Raises FileExistsError if the store refuses because the object exists. That may be the
        answer to the repetition of a request that was carried out and whose answer was lost. After
        any other OSError it is unknown whether the object was created.
        """

    @abstractmethod
    def mark_of(self, name: str) -> str | None:
        """The mark of an object, in one request; None if it has none.

        Raises FileNotFoundError if it does not exist.
        """

    @abstractmethod
    def get(self, name: str) -> bytes:
        """The data of an object. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is an object of that name, or one below it."""

    @abstractmethod
    def list_names(self, directory: str) -> list[str]:
        """The last parts of the names of the objects directly below a directory."""

    @abstractmethod
    def list_directories(self, directory: str) -> list[str]:
        """The names directly below a directory that have objects below them."""

    @abstractmethod
    def is_empty(self, directory: str) -> bool:
        """Whether there is no object below a directory, however deep."""

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Remove these objects, those that exist, in as few requests as possible."""

    @abstractmethod
    def delete_all(self) -> None:
        """Remove every object below the root."""


class ObjectStoreFiles(CheckpointFiles):
    """Keeps the contract of CheckpointFiles on an object store, except for directories.

    Directories neither have to be created nor can they be missing: `create_if_absent` does not
    raise FileNotFoundError, and a checkpoint that has vanished is detected by `holds` alone.

    Every file is written with a mark of its own, by which this object recognises what it has
    written itself. The data is not sufficient: two runs that process the same batch write the same
    entry to the commit log, and only one of them may succeed.
    """

    is_object_store = True
    purged_at_once = 50

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._marks: dict[str, str] = {}

    @property
    def root(self) -> str:
        return self._store.root

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Create the file, in one request if nothing fails.

        If it is unknown whether a request was carried out, the file is looked up: if it is there
        and was written here, the write has succeeded, if another has written it, this returns
        False. If it is not there, the request is repeated: that does no harm, even if the first
        one is carried out later, because both have the same data and the same mark.
        """
        mark = uuid.uuid4().hex
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._store.put_if_absent(name, data, mark)
            except FileExistsError:
                if not self._is_ours(name, data, mark):
                    return False
            except InterruptedError:
                raise
            except OSError as exc:
                found = self._look_up(name, data, mark, exc)
                if found is None and attempt < _ATTEMPTS:
                    continue
                if found is None:
                    raise
                if not found:
                    return False
            self._marks[name] = mark
            return True
        raise AssertionError("the last attempt returns or raises")

    def _look_up(self, name: str, data: bytes, mark: str, failure: OSError) -> bool | None:
        """Whether the file was written here; None if it does not exist.

        Raises `failure` if the store does not answer this either.
        """
        try:
            is_ours = self._is_ours(name, data, mark)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise failure from exc
        if is_ours:
            _logger.warning("%s was written although the request failed: %s", name, failure)
        return is_ours

    def _is_ours(self, name: str, data: bytes, mark: str) -> bool:
        """Raises FileNotFoundError if the file does not exist."""
        if self._store.keeps_marks:
            return self._store.mark_of(name) == mark
        return self._store.get(name) == data

    def make_directory(self, name: str) -> None:
        """Does nothing: a directory is a prefix of names."""

    def read(self, name: str) -> bytes:
        return self._store.get(name)

    def exists(self, name: str) -> bool:
        return self._store.exists(name)

    def holds(self, name: str, data: bytes) -> bool:
        """Whether the file exists and has this content; one request if it was written here."""
        mark = self._marks.get(name)
        if mark is None or not self._store.keeps_marks:
            return super().holds(name, data)
        try:
            return self._store.mark_of(name) == mark
        except FileNotFoundError:
            return False

    def list_names(self, directory: str) -> list[str]:
        return self._store.list_names(directory)

    def list_directories(self, directory: str) -> list[str]:
        return self._store.list_directories(directory)

    def is_empty(self, directory: str) -> bool:
        return self._store.is_empty(directory)

    def delete(self, name: str) -> None:
        self.delete_many([name])

    def delete_many(self, names: Sequence[str]) -> None:
        for name in names:
            self._marks.pop(name, None)
        self._store.delete(names)

    def delete_all(self) -> None:
        self._marks.clear()
        self._store.delete_all()

    def run_aside(self, task: Callable[[], None]) -> None:
        """Run a task on a thread of its own, so that no batch waits for it; its errors are logged.

        A process that ends does not wait for it either.
        """
        threading.Thread(target=_attempt, args=[task], name="checkpoint-purge", daemon=True).start()


def _attempt(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:
        _logger.warning("Old log entries were not removed; this is tried again", exc_info=True)


def missing(path: str) -> FileNotFoundError:
    """The error for an object that does not exist."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
