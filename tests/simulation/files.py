"""Checkpoint files in memory, with injected faults."""

from __future__ import annotations

import errno
import functools
import os

from penstock.checkpoint import CheckpointFiles, OffsetSeqLog, StreamMetadata
from penstock.checkpoint.own_files import OWN_DIRECTORY
from tests.simulation.life import Life
from tests.simulation.schedule import FaultKind
from tests.simulation.world import World

_WITHOUT_REQUESTS = {
    FaultKind.REPEATED: FaultKind.EIO_AFTER,
    FaultKind.RIVAL_UNANSWERED: FaultKind.RIVAL,
    FaultKind.STORM: FaultKind.EIO,
    FaultKind.STORM_AFTER: FaultKind.EIO_AFTER,
}
"""Faults of an object store, and the most similar ones of a file system."""


class SimulatedFiles(CheckpointFiles):
    """The view of one process on the world's files, which outlive the process."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life

    @property
    def root(self) -> str:
        return "memory:/checkpoint"

    def create_if_absent(self, name: str, data: bytes) -> bool:
        fault = self._life.cross(f"create_{kind_of(name)}")
        fault = _WITHOUT_REQUESTS.get(fault, fault) if fault is not None else None
        if fault is not None:
            self._before_creating(fault, name, data)
        if self._world.files.find(name) is not None:
            return False
        directory = name.rpartition("/")[0]
        if directory not in self._world.files.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        self._world.create(self._life, name, data)
        if fault is FaultKind.EIO_AFTER:
            raise error_of(errno.EIO, name)
        if fault is FaultKind.KILL_AFTER:
            raise self._life.die()
        return True

    def make_directory(self, name: str) -> None:
        self._world.files.make_directory(name)

    def read(self, name: str) -> bytes:
        if self._life.cross(f"read_{kind_of(name)}") is FaultKind.EIO:
            raise error_of(errno.EIO, name)
        return self._world.files.read(name)

    def exists(self, name: str) -> bool:
        return self._world.files.exists(name)

    def list_names(self, directory: str) -> list[str]:
        fault = self._life.cross(f"list_{kind_of(directory)}")
        if fault is FaultKind.EIO:
            raise error_of(errno.EIO, directory)
        if fault is FaultKind.STALE:
            self._life.sees_stale_listing = True
            return self._world.names_a_moment_ago(directory)
        return self._world.files.list_names(directory)

    def list_directories(self, directory: str) -> list[str]:
        return self._world.files.list_directories(directory)

    def is_empty(self, directory: str) -> bool:
        return not self.list_names(directory)

    def delete(self, name: str) -> None:
        fault = self._life.cross(f"delete_{kind_of(name)}")
        if fault is FaultKind.EIO:
            raise error_of(errno.EIO, name)
        self._world.remove(self._life, name)
        if fault is FaultKind.EIO_AFTER:
            raise error_of(errno.EIO, name)

    def delete_all(self) -> None:
        raise NotImplementedError("a simulated checkpoint is never temporary")

    def _before_creating(self, fault: FaultKind, name: str, data: bytes) -> None:
        match fault:
            case FaultKind.EIO:
                raise error_of(errno.EIO, name)
            case FaultKind.ENOSPC:
                self._world.place(_temporary(name), data[:1])
                raise error_of(errno.ENOSPC, name)
            case FaultKind.TORN_TEMPORARY:
                self._world.place(_temporary(name), data[: len(data) // 2])
                raise self._life.die()
            case FaultKind.TORN | FaultKind.EMPTY:
                if self._world.files.find(name) is None:
                    kept = len(data) // 2 if fault is FaultKind.TORN else 0
                    self._world.tear(name, data[:kept])
                raise self._life.die()
            case FaultKind.RIVAL if self._world.files.find(name) is None:
                self._world.create_by_rival(self._life, name, as_a_rival_has_it(name, data))


@functools.cache
def kind_of(name: str) -> str:
    """The part of the checkpoint that a file or directory belongs to."""
    return name.removeprefix(f"{OWN_DIRECTORY}/").partition("/")[0]


def _temporary(name: str) -> str:
    directory, slash, plain = name.rpartition("/")
    return f"{directory}{slash}.{plain}.tmp"


def error_of(number: int, name: str) -> OSError:
    """The error of a file operation or of a request."""
    return OSError(number, os.strerror(number), name)


def as_a_rival_has_it(name: str, data: bytes) -> bytes:
    """The entry as another run would have written it: at another time, with another id."""
    if name.startswith("offsets/"):
        entry = _DECODER.deserialize(data)
        assert entry.metadata is not None
        later = entry.metadata.at(
            watermark_ms=entry.metadata.batch_watermark_ms,
            timestamp_ms=entry.metadata.batch_timestamp_ms + 500,
        )
        return _DECODER.serialize(type(entry)(entry.offsets, later, entry.source_ids))
    return data if "/" in name else StreamMetadata.new().json.encode()


class _NoFiles(SimulatedFiles):
    """For a log that is used only to parse and to serialize."""

    def __init__(self) -> None:
        """Has no world."""


_DECODER = OffsetSeqLog(_NoFiles())
