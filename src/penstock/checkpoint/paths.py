"""Paths of files in a checkpoint: local ones, and those in an object store.

The commands in `tools` use what `pathlib.Path` and `StorePath` have in common, so that the same
code works on both.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol, Self

from penstock.checkpoint.store_path import StorePath


class Status(Protocol):
    """The part of `os.stat_result` that the commands use."""

    @property
    def st_size(self) -> int: ...

    @property
    def st_mtime(self) -> float: ...


class CheckpointPath(Protocol):
    """The part of `pathlib.Path` that the commands use. No method changes a file."""

    @property
    def name(self) -> str: ...

    @property
    def suffix(self) -> str: ...

    @property
    def parent(self) -> Self: ...

    def __truediv__(self, name: str, /) -> Self: ...

    def __lt__(self, other: Self, /) -> bool: ...

    def __hash__(self) -> int: ...

    def with_name(self, name: str) -> Self: ...

    def as_posix(self) -> str: ...

    def exists(self) -> bool: ...

    def is_dir(self) -> bool: ...

    def is_file(self) -> bool: ...

    def iterdir(self) -> Iterator[Self]: ...

    def glob(self, pattern: str) -> Iterator[Self]: ...

    def stat(self) -> Status: ...

    def read_bytes(self) -> bytes: ...

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str: ...

    def relative_to(self, other: Self, /) -> PurePath: ...

    def is_relative_to(self, other: Self, /) -> bool: ...


def files_below(
    path: CheckpointPath, left_out: Collection[str] = frozenset()
) -> Iterator[CheckpointPath]:
    """All files at any depth below a directory, without those that are removed meanwhile.

    What has one of the names `left_out`, directly below the directory, is left out. Links are
    followed, except for one to a directory that it is in. Raises an OSError for a directory that
    cannot be read.
    """
    if isinstance(path, StorePath):
        below = path.files_below()
        yield from (file for file in below if file.relative_to(path).parts[0] not in left_out)
    else:
        yield from _files_below(Path(str(path)), left_out, frozenset())


def _files_below(folder: Path, left_out: Collection[str], above: frozenset[str]) -> Iterator[Path]:
    """`above` are the resolved paths of the directories that the folder is in."""
    place = os.path.realpath(folder)
    if place in above:
        return
    try:
        with os.scandir(folder) as found:
            entries = [(e.name, e.is_dir()) for e in found if e.name not in left_out]
    except FileNotFoundError:
        return
    for name, is_directory in entries:
        if is_directory:
            yield from _files_below(folder / name, (), above | {place})
        else:
            yield folder / name


def fresh(path: CheckpointPath) -> CheckpointPath:
    """The same path, with what is there now: a path in a store answers from an earlier listing."""
    return path.fresh() if isinstance(path, StorePath) else path


def is_below(path: CheckpointPath, root: CheckpointPath) -> bool:
    """Whether a path is a directory or a name below it. A local path is never below a store's."""
    return isinstance(path, Path) == isinstance(root, Path) and path.is_relative_to(root)


def opened(path: CheckpointPath) -> BinaryIO:
    """Open a file for reading. A file in a store is read completely."""
    return path.open("rb") if isinstance(path, Path) else BytesIO(path.read_bytes())
