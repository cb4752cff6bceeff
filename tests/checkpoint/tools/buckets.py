"""Object stores in memory, in place of those that the locations of a test name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from penstock.checkpoint import ObjectStoreFiles
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_lock import CHANGED
from penstock.checkpoint.store_path import ObjectStatus, StorePath
from penstock.checkpoint.tools import locations
from penstock.checkpoint.tools.locations import location_of
from penstock.checkpoint.tools.store_client import ObstoreClient

URI = "s3a://bucket/checkpoints/orders"
OLD = 1_000_000_000.0
CHANGES = ("create", "put", "copy", "upload", "delete")


class Killed(BaseException):
    """The process was killed: no further request is made."""


class BucketClient(ObstoreClient):
    """A client whose requests are recorded, and fail where a test wants it."""

    def __init__(self, buckets: Buckets, store: Any, identity: tuple[str, str]) -> None:
        super().__init__(store, identity)
        self._buckets = buckets
        for name in ("list", "head", "get", "mark", *CHANGES):
            setattr(self, name, self._recorded(name, getattr(self, name)))

    def _recorded(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any) -> Any:
            self._buckets.requests.append(name)
            if name in CHANGES:
                self._buckets.before_change(name)
            answer = request(*given)
            if name in CHANGES:
                self._buckets.after_change(name)
            return answer

        return recorded

    def list(self, prefix: str) -> Mapping[str, ObjectStatus]:
        found = super().list(prefix)
        old = self._buckets.old
        return {
            name: replace(status, st_mtime=OLD) if (name, status.st_size) in old else status
            for name, status in found.items()
        }


class Buckets:
    """The stores, by the name of their bucket."""

    def __init__(self) -> None:
        self.stores: dict[str, MemoryStore] = {}
        self.old: set[tuple[str, int]] = set()
        self.requests: list[str] = []
        self.dies_at: int | None = None
        self.fails_at: int | None = None
        self.loses_at: int | None = None
        self._counting = threading.Lock()

    def client(
        self, kind: str, scheme: str, bucket: str, options: Mapping[str, str]
    ) -> BucketClient:
        store = self.stores.setdefault(bucket, MemoryStore())
        return BucketClient(self, store, (kind, bucket))

    def before_change(self, name: str) -> None:
        """Kill the process, or let a request fail, after a number of changes."""
        with self._counting:
            if self.dies_at == 0:
                raise Killed
            if self.dies_at is not None:
                self.dies_at -= 1
            if self.fails_at is not None:
                self.fails_at -= 1
                if self.fails_at == -1:
                    raise OSError(f"{name} failed")

    def after_change(self, name: str) -> None:
        """Lose the answer to a request that was carried out."""
        with self._counting:
            if self.loses_at is not None:
                self.loses_at -= 1
                if self.loses_at == -1:
                    raise OSError(f"{name} was not answered")

    def heal(self) -> None:
        self.dies_at = self.fails_at = self.loses_at = None

    @property
    def changes(self) -> int:
        return sum(name in CHANGES for name in self.requests)

    def upload(self, root: Path, uri: str = URI) -> None:
        """Copy a directory to a location, where its files are as old as they were."""
        bucket, _, prefix = uri.partition("://")[2].partition("/")
        store = self.stores.setdefault(bucket, MemoryStore())
        for path in sorted(root.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(root).as_posix()}"
                store.put(key, path.read_bytes())
                self.old.add((key, path.stat().st_size))

    def content(self, uri: str = URI) -> dict[str, bytes]:
        """The content of every object below a location except Penstock's own."""
        found = self.all_content(uri)
        return {name: data for name, data in found.items() if not name.startswith(".penstock/")}

    def all_content(self, uri: str = URI) -> dict[str, bytes]:
        """The content of every object except that which says when a command has finished."""
        bucket, _, prefix = uri.partition("://")[2].partition("/")
        store = self.stores[bucket]
        names = [str(found["path"]) for page in store.list(prefix) for found in page]
        found = {name[len(prefix) + 1 :]: bytes(store.get(name).bytes()) for name in sorted(names)}
        found.pop(CHANGED, None)
        return found

    def put(self, name: str, data: bytes, uri: str = URI) -> None:
        bucket, _, prefix = uri.partition("://")[2].partition("/")
        self.stores[bucket].put(f"{prefix}/{name}", data)

    def remove(self, names: Sequence[str], uri: str = URI) -> None:
        bucket, _, prefix = uri.partition("://")[2].partition("/")
        self.stores[bucket].delete([f"{prefix}/{name}" for name in names])


def path_at(uri: str = URI) -> StorePath:
    found = location_of(uri)
    assert isinstance(found, StorePath)
    return found


def files_of(root: CheckpointPath) -> ObjectStoreFiles:
    """The file layer that a query has, which sees every change at once."""
    assert isinstance(root, StorePath)
    return ObjectStoreFiles(root.fresh().tree)


def use_buckets(patch: pytest.MonkeyPatch) -> Buckets:
    """Stores in memory for every location in a store, until the patch is undone."""
    buckets = Buckets()
    patch.setattr(locations, "open_client", buckets.client)
    return buckets
