"""Checkpoint files in memory, without faults."""

from __future__ import annotations

import errno
import os

from penstock.checkpoint import CheckpointFiles

Directories = dict[str, dict[str, bytes]]
"""The files of each existing directory, by name. The root directory has the empty name."""


class MemoryFiles(CheckpointFiles):
    """Keeps the contract of `CheckpointFiles`: a directory has to be made before it has files."""

    def __init__(self, directories: Directories | None = None) -> None:
        self.directories: Directories = {} if directories is None else directories
        self.failure: OSError | None = None
        """Raised by `delete_all` if set."""

    @property
    def root(self) -> str:
        return "memory:/checkpoint"

    def create_if_absent(self, name: str, data: bytes) -> bool:
        if self.find(name) is not None:
            return False
        directory = name.rpartition("/")[0]
        if directory not in self.directories:
            raise _missing(directory)
        self.place(name, data)
        return True

    def make_directory(self, name: str) -> None:
        for directory in ("", name):
            self.directories.setdefault(directory, {})

    def read(self, name: str) -> bytes:
        data = self.find(name)
        if data is None:
            raise _missing(name)
        return data

    def exists(self, name: str) -> bool:
        return self.find(name) is not None or name in self.directories

    def list_names(self, directory: str) -> list[str]:
        return list(self.directories.get(directory, ()))

    def list_directories(self, directory: str) -> list[str]:
        parent = f"{directory}/"
        below = (name.removeprefix(parent) for name in self.directories if name.startswith(parent))
        return sorted({name.partition("/")[0] for name in below})

    def is_empty(self, directory: str) -> bool:
        return not any(
            files
            for name, files in self.directories.items()
            if name == directory or name.startswith(f"{directory}/")
        )

    def delete(self, name: str) -> None:
        directory, _, plain = name.rpartition("/")
        self.directories.get(directory, {}).pop(plain, None)

    def delete_all(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.directories.clear()

    def find(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        directory, _, plain = name.rpartition("/")
        return self.directories.get(directory, {}).get(plain)

    def place(self, name: str, data: bytes) -> None:
        """Write a file, replacing one of that name and making its directory if necessary."""
        directory, _, plain = name.rpartition("/")
        self.directories.setdefault(directory, {})[plain] = data


def _missing(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
