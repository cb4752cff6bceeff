"""The file layer under a checkpoint: the few operations that the protocol needs.

Names are relative to the root, with forward slashes (`offsets/7`). Implementations differ in
where the bytes go; the contract below is the same for all and is tested by one suite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


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
        Missing directories on the way are made.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError if there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file or a directory of that name."""

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
