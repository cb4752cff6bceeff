"""An object store in memory, with injected faults, below the real file layer for such stores."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from penstock.checkpoint import ObjectStore, ObjectStoreFiles
from tests.simulation.files import as_a_rival_has_it, error_of, kind_of
from tests.simulation.life import Life
from tests.simulation.schedule import FaultKind
from tests.simulation.world import World

_NOT_CARRIED_OUT = (FaultKind.EIO, FaultKind.ENOSPC, FaultKind.STORM)
_ENDS_BEFORE = (FaultKind.TORN, FaultKind.EMPTY, FaultKind.TORN_TEMPORARY)


class SimulatedStoreFiles(ObjectStoreFiles):
    """The real file layer. It purges a few batches at a time, on the caller's thread."""

    purged_at_once = 2

    def run_aside(self, task: Callable[[], None]) -> None:
        task()


class SimulatedStore(ObjectStore):
    """The view of one process on the world's files, as the objects of a consistent store."""

    keeps_marks = True

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life
        self._is_down = False

    @property
    def root(self) -> str:
        return "memory:/checkpoint"

    def put_if_absent(self, name: str, data: bytes, mark: str) -> None:
        fault = self._request(f"create_{kind_of(name)}", name)
        if fault in _NOT_CARRIED_OUT:
            raise error_of(errno.EIO, name)
        if fault in _ENDS_BEFORE:
            raise self._life.die()
        if fault in (FaultKind.RIVAL, FaultKind.RIVAL_UNANSWERED):
            self._let_rival_write(name, data)
        if self._world.files.find(name) is not None:
            if fault is FaultKind.RIVAL_UNANSWERED:
                raise error_of(errno.ETIMEDOUT, name)
            raise FileExistsError(name)
        self._world.create(self._life, name, data)
        self._world.marks[name] = mark
        if fault is FaultKind.KILL_AFTER:
            raise self._life.die()
        if fault is FaultKind.REPEATED:
            raise FileExistsError(name)
        if fault in (FaultKind.EIO_AFTER, FaultKind.STORM_AFTER):
            raise error_of(errno.ETIMEDOUT, name)

    def mark_of(self, name: str) -> str | None:
        self._read(f"head_{kind_of(name)}", name)
        self._world.files.read(name)
        return self._world.marks.get(name)

    def get(self, name: str) -> bytes:
        self._read(f"read_{kind_of(name)}", name)
        return self._world.files.read(name)

    def exists(self, name: str) -> bool:
        return self._world.files.exists(name)

    def list_names(self, directory: str) -> list[str]:
        self._read(f"list_{kind_of(directory)}", directory)
        return self._world.files.list_names(directory)

    def list_directories(self, directory: str) -> list[str]:
        return self._world.files.list_directories(directory)

    def is_empty(self, directory: str) -> bool:
        return not self.list_names(directory)

    def delete(self, names: Sequence[str]) -> None:
        fault = self._request(f"delete_{kind_of(names[0])}", names[0]) if names else None
        if fault is FaultKind.EIO:
            raise error_of(errno.EIO, names[0])
        for name in names:
            self._world.remove(self._life, name)
        if fault is FaultKind.EIO_AFTER:
            raise error_of(errno.EIO, names[0])

    def delete_all(self) -> None:
        raise NotImplementedError("a simulated checkpoint is never temporary")

    def _read(self, site: str, name: str) -> None:
        if self._request(site, name) is FaultKind.EIO:
            raise error_of(errno.EIO, name)

    def _request(self, site: str, name: str) -> FaultKind | None:
        """Pass a site. Raises if the store no longer answers this process."""
        fault = self._life.cross(site)
        if self._is_down:
            raise error_of(errno.EACCES, name)
        self._is_down = fault in (FaultKind.STORM, FaultKind.STORM_AFTER)
        return fault

    def _let_rival_write(self, name: str, data: bytes) -> None:
        if self._world.files.find(name) is None:
            self._world.create_by_rival(self._life, name, as_a_rival_has_it(name, data))
            self._world.marks[name] = "of another run"
