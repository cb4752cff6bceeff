"""The file layer under a checkpoint: the few operations that the protocol needs.

Names are relative to the root, with forward slashes (`offsets/7`). Implementations differ in
where the bytes go; the contract below is the same for all and is tested by one suite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class CheckpointFiles(ABC):
    """The files below one checkpoint root."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The root as a URI or path, as it is shown to people and handed to Spark."""

    @abstractmethod
    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Create the file with all of `data`, durably, or leave everything as it was.

        Returns False if the file is there already, whoever wrote it and whatever is in it. After
        True the file survives a crash of the machine. Nobody ever sees it with part of its data.
        Raises FileNotFoundError if its directory is missing, and makes none: a directory that was
        there and is not any more is no place to write to.
        """

    @abstractmethod
    def make_directory(self, name: str) -> None:
        """Make a directory and those above it, durably; `""` is the root. Fine if it is there.

        Raises NotADirectoryError if a file is in the place of one of them.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError if there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file or a directory of that name."""

    def holds(self, name: str, data: bytes) -> bool:
        """Whether the file is there and has exactly these bytes.

        Errors other than that there is no such file are raised: they say nothing about it.
        """
        try:
            return self.read(name) == data
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False

    def pin(self, directory: str) -> Callable[[], bool] | None:
        """A question, to be asked later: is this directory still there, and still the same one?

        None if there is no such directory, or if the layer cannot tell one directory from another
        of the same name.
        """
        return None

    @abstractmethod
    def list_names(self, directory: str) -> list[str]:
        """The plain names of the files in a directory, in no order; empty if it is missing.

        Directories are left out. Temporary and checksum files are included: what is a log entry
        is the log's to say.
        """

    @abstractmethod
    def is_empty(self, directory: str) -> bool:
        """Whether a directory holds no file and no directory, or is missing."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, and its checksum twin if there is one. Missing files are fine."""

    @abstractmethod
    def delete_all(self) -> None:
        """Remove the root and everything below it. Missing is fine."""

    def path(self, name: str) -> str:
        """The full path of a file, for messages and for Spark."""
        return f"{self.root}/{name}"
