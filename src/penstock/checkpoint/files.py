"""The file operations that the checkpoint protocol needs.

Names are relative to the root, with forward slashes (`offsets/7`). All implementations keep the
contract below; one test suite checks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence


class CheckpointFiles(ABC):
    """The files below one checkpoint root."""

    is_object_store = False
    """Whether every operation is a request to a store that has no directories."""

    purged_at_once = 1
    """The number of batches whose log entries are removed together."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The root as a URI or path, for messages and for Spark."""

    @abstractmethod
    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Create the file with `data`, atomically and durably.

        Returns False, without a change, if the file exists, whatever its content. After True the
        file survives a crash of the machine. A reader never sees a part of the data. Raises
        FileNotFoundError if the directory does not exist; it is not created, since a directory
        that has disappeared means that the checkpoint was moved or unmounted. An object store has
        no directories, and does not raise it.
        """

    @abstractmethod
    def make_directory(self, name: str) -> None:
        """Create a directory and its parents, durably; `""` is the root. It may exist already.

        Raises NotADirectoryError if one of these names is a file.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file or directory of that name exists."""

    def holds(self, name: str, data: bytes) -> bool:
        """Whether the file exists and has exactly this content.

        Other errors than a missing file are raised, since the content is then not known.
        """
        try:
            return self.read(name) == data
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False

    def pin(self, directory: str) -> Callable[[], bool] | None:
        """A function that returns whether the directory still exists and is still the same one.

        None if there is no such directory, or if the implementation cannot distinguish it from
        another directory of the same name.
        """
        return None

    @abstractmethod
    def list_names(self, directory: str) -> list[str]:
        """The names of the files in a directory, unordered; empty if it does not exist.

        Includes temporary and checksum files, but not directories.
        """

    @abstractmethod
    def list_directories(self, directory: str) -> list[str]:
        """The names of the directories in a directory, unordered; empty if it does not exist."""

    @abstractmethod
    def is_empty(self, directory: str) -> bool:
        """Whether a directory is empty or does not exist."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file and its checksum file, if they exist."""

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove several files and their checksum files, if they exist."""
        for name in names:
            self.delete(name)

    def run_aside(self, task: Callable[[], None]) -> None:
        """Run a task that no batch depends on: at once, or on another thread if it is slow."""
        task()

    @abstractmethod
    def delete_all(self) -> None:
        """Remove the root and everything below it, if it exists."""

    def path(self, name: str) -> str:
        """The full path of a file, for messages and for Spark."""
        return f"{self.root}/{name}"
