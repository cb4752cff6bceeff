"""The objects below one location of an object store, and paths to them.

A tree lists everything below its root once, when it is first asked, and answers from that: how many
requests a command makes depends on the number of objects, not on what it asks. A tree that has
changed an object knows it; changes of others are seen by a new tree only, see `StorePath.fresh`.
Several threads may use a tree at the same time.

A connector of Hadoop marks a directory with an empty object whose name ends with a slash. Such a
mark counts as a directory here. It can be neither copied nor removed with these means.
"""

from __future__ import annotations

import fnmatch
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from penstock.checkpoint.object_store import ObjectStore, missing
from penstock.checkpoint.own_files import OWN_DIRECTORY

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""The number of requests that are made at the same time."""

_KEPT_BYTES = 1024 * 1024
"""The size up to which the content of an object is kept."""


@dataclass(frozen=True)
class ObjectStatus:
    """The size of an object, and when it was written, in seconds since the epoch."""

    st_size: int
    st_mtime: float


class StoreClient(Protocol):
    """A bucket, or what the store calls it. Names are those of objects, from its top.

    A request that fails raises an OSError.
    """

    @property
    def identity(self) -> tuple[str, str]:
        """The kind of store and the bucket: the same for two clients of the same bucket."""

    def list(self, prefix: str) -> Mapping[str, ObjectStatus]:
        """The objects below a directory; a mark of a directory has its name without the slash."""

    def head(self, name: str) -> ObjectStatus:
        """Raises FileNotFoundError if there is no such object."""

    def get(self, name: str) -> bytes:
        """Raises FileNotFoundError if there is no such object."""

    def mark(self, name: str) -> str | None:
        """The mark of an object. Raises FileNotFoundError if there is no such object."""

    def create(self, name: str, data: bytes, mark: str) -> None:
        """Create an object with a mark. Raises FileExistsError if it exists."""

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object."""

    def copy(self, name: str, target: str) -> None:
        """Copy an object within the bucket, without reading it; replaces the target."""

    def upload(self, file: Path, name: str) -> None:
        """Create or replace an object with the content of a file."""

    def download(self, name: str, file: Path) -> None:
        """Write an object to a new file. Raises FileNotFoundError if there is no such object."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove these objects, those that exist."""


class StoreTree(ObjectStore):
    """The objects below a root. `uri` is the root as the user has named it."""

    keeps_marks = True

    def __init__(
        self, client: StoreClient, prefix: str, uri: str, elsewhere: Callable[[str], StorePath]
    ) -> None:
        """`elsewhere` returns the path of another URI, with the same credentials."""
        self.client = client
        self.prefix = prefix.strip("/")
        self.uri = uri.rstrip("/")
        self.elsewhere = elsewhere
        self._content: dict[str, bytes] = {}
        # Held while the objects are listed: a change that is made meanwhile is recorded after it.
        self._lock = threading.RLock()
        self._listed: dict[str, ObjectStatus] | None = None
        self._sorted: list[str] | None = None
        self._marks: set[str] | None = None

    @property
    def root(self) -> str:
        return self.uri

    def key(self, name: str) -> str:
        """The name of an object in its bucket."""
        return f"{self.prefix}/{name}" if self.prefix and name else self.prefix or name

    # What is there, as it was listed.

    @property
    def _objects(self) -> dict[str, ObjectStatus]:
        with self._lock:
            if self._listed is None:
                skipped = len(self.prefix) + 1 if self.prefix else 0
                found = self.client.list(self.prefix)
                self._listed = {key[skipped:]: found[key] for key in found if len(key) >= skipped}
            return self._listed

    @property
    def marks(self) -> set[str]:
        """The directories that a connector of Hadoop has marked."""
        with self._lock:
            if self._marks is None:
                empty = [name for name, status in self._objects.items() if not status.st_size]
                alone = [name for name in empty if not self._has_below(name)]
                unknown = dict(zip(alone, in_parallel(self._is_mark, alone), strict=True))
                self._marks = {name for name in empty if unknown.get(name, True)}
            return self._marks

    def _is_mark(self, name: str) -> bool:
        try:
            self.client.head(self.key(name))
        except FileNotFoundError:
            return True
        return False

    def _all_names(self) -> list[str]:
        """The names of all objects, sorted."""
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self._objects)
            return self._sorted

    def names(self, directory: str = "") -> list[str]:
        """The names of all objects at any depth below a directory, sorted."""
        names = self._all_names()
        first, end = _range(names, directory)
        return names[first:end]

    def _has_below(self, directory: str) -> bool:
        first, end = _range(self._all_names(), directory)
        return first < end

    def files(self, directory: str = "") -> list[str]:
        """The names of all objects below a directory except marks, sorted."""
        return [name for name in self.names(directory) if name not in self.marks]

    def is_file(self, name: str) -> bool:
        return name in self._objects and name not in self.marks

    def is_directory(self, name: str) -> bool:
        return name in self.marks or self._has_below(name)

    def children(self, directory: str) -> list[str]:
        """The last parts of the names directly below a directory, sorted."""
        skipped = len(directory) + 1 if directory else 0
        return sorted({name[skipped:].partition("/")[0] for name in self.names(directory)})

    def status(self, name: str) -> ObjectStatus:
        """Raises FileNotFoundError if there is no such object."""
        found = self._objects.get(name)
        if found is None or name in self.marks:
            raise missing(f"{self.uri}/{name}")
        return found

    def exists(self, name: str) -> bool:
        return self.is_file(name) or self.is_directory(name)

    def list_names(self, directory: str) -> list[str]:
        parent = f"{directory}/" if directory else ""
        return [child for child in self.children(directory) if self.is_file(parent + child)]

    def list_directories(self, directory: str) -> list[str]:
        parent = f"{directory}/" if directory else ""
        return [child for child in self.children(directory) if self.is_directory(parent + child)]

    def is_empty(self, directory: str) -> bool:
        return not self.files(directory)

    # Requests.

    def get(self, name: str) -> bytes:
        """The content of an object, read once if it is small and not one of Penstock's own."""
        if name in self._content:
            return self._content[name]
        data = self.client.get(self.key(name))
        if len(data) <= _KEPT_BYTES and not name.startswith(f"{OWN_DIRECTORY}/"):
            self._content[name] = data
        return data

    def read_ahead(self, names: Iterable[str]) -> None:
        """Read several small objects at the same time. Those that are gone are left out."""
        wanted = [name for name in names if name not in self._content and self.is_file(name)]
        small = [name for name in wanted if self._objects[name].st_size <= _KEPT_BYTES]

        def read(name: str) -> None:
            try:
                self.get(name)
            except FileNotFoundError:
                return

        in_parallel(read, small)

    def mark_of(self, name: str) -> str | None:
        return self.client.mark(self.key(name))

    def put_if_absent(self, name: str, data: bytes, mark: str) -> None:
        with self.changing(name, len(data)) as key:
            self.client.create(key, data, mark)

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object."""
        with self.changing(name, len(data)) as key:
            self.client.put(key, data)

    def delete(self, names: Sequence[str]) -> None:
        try:
            self.client.delete([self.key(name) for name in names])
        except BaseException:
            self._forget()
            raise
        for name in names:
            self._changed(name, None)

    def delete_all(self) -> None:
        self.delete(self.files())

    @contextmanager
    def changing(self, name: str, size: int) -> Iterator[str]:
        """Around a request that writes an object, whose name in the bucket it returns.

        If the request fails it may have been carried out all the same: everything is listed again.
        """
        try:
            yield self.key(name)
        except BaseException:
            self._forget()
            raise
        self._changed(name, size)

    def _forget(self) -> None:
        with self._lock:
            self._content.clear()
            self._listed = self._sorted = self._marks = None

    def _changed(self, name: str, size: int | None) -> None:
        """Record the new size of an object; None if it was removed."""
        with self._lock:
            self._content.pop(name, None)
            if self._listed is None:
                return  # the listing that is made later has it
            self._sorted = None
            if size is None:
                self._listed.pop(name, None)
            else:
                self._listed[name] = ObjectStatus(size, time.time())
                self.marks.discard(name)


class StorePath:
    """A name in a tree, with the methods of `pathlib.Path` that the commands use."""

    def __init__(self, tree: StoreTree, key: str = "") -> None:
        """`key` is relative to the root of the tree, which is the empty one."""
        self.tree = tree
        self.key = key

    def fresh(self) -> StorePath:
        """The same path, in a tree that is listed again."""
        tree = self.tree
        return StorePath(StoreTree(tree.client, tree.prefix, tree.uri, tree.elsewhere), self.key)

    def as_root(self) -> StorePath:
        """The same path, as the root of a tree: only what is below it is listed."""
        tree = self.tree
        own = StoreTree(tree.client, tree.key(self.key), str(self), tree.elsewhere)
        return StorePath(own)

    def __str__(self) -> str:
        return f"{self.tree.uri}/{self.key}" if self.key else self.tree.uri

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    as_posix = __str__

    @property
    def _place(self) -> tuple[tuple[str, str], str]:
        return self.tree.client.identity, self.tree.key(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __lt__(self, other: StorePath) -> bool:
        return self._place < other._place

    @property
    def name(self) -> str:
        return str(self).rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> StorePath:
        return StorePath(self.tree, self.key.rpartition("/")[0])

    def __truediv__(self, name: str) -> StorePath:
        """A name below this path, or, as with `pathlib`, an absolute one: a URI."""
        if "://" in name:
            return self.tree.elsewhere(name)
        return StorePath(self.tree, f"{self.key}/{name}".strip("/"))

    def with_name(self, name: str) -> StorePath:
        return self.parent / name

    def relative_to(self, other: StorePath) -> PurePosixPath:
        """Raises ValueError if this is not below the other path."""
        _check_same_bucket(self, other)
        mine, theirs = self._place[1], other._place[1]
        return PurePosixPath(mine).relative_to(PurePosixPath(theirs))

    def is_relative_to(self, other: StorePath) -> bool:
        try:
            self.relative_to(other)
        except ValueError:
            return False
        return True

    def exists(self) -> bool:
        return self.tree.exists(self.key)

    def is_dir(self) -> bool:
        return self.tree.is_directory(self.key)

    def is_file(self) -> bool:
        return self.tree.is_file(self.key)

    def stat(self) -> ObjectStatus:
        return self.tree.status(self.key)

    def iterdir(self) -> Iterator[StorePath]:
        return (self / child for child in self.tree.children(self.key))

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """The paths that match a relative pattern, part by part; `**` is not supported."""
        first, _, rest = pattern.partition("/")
        for child in self.iterdir():
            if fnmatch.fnmatchcase(child.name, first):
                yield from child.glob(rest) if rest else (child,)

    def files_below(self) -> Iterator[StorePath]:
        """All objects at any depth below this path."""
        return (StorePath(self.tree, name) for name in self.tree.files(self.key))

    def read_bytes(self) -> bytes:
        return self.tree.get(self.key)

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")


def _check_same_bucket(path: StorePath, other: StorePath) -> None:
    if path.tree.client.identity != other.tree.client.identity:
        raise ValueError(f"{path} is not in the bucket of {other}")


def _range(names: Sequence[str], directory: str) -> tuple[int, int]:
    """The first and the last index, exclusive, of the sorted names below a directory."""
    if not directory:
        return 0, len(names)
    after_slash = chr(ord("/") + 1)
    return bisect_left(names, f"{directory}/"), bisect_left(names, f"{directory}{after_slash}")


def in_parallel(task: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Call a function for each of the items, some at the same time. Raises the first error."""
    if len(items) < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(items))) as pool:
        return list(pool.map(task, items))
