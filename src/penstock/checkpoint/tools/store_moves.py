"""Moves and copies in object stores, and between a store and local directories.

A store has no rename: an object is copied, then removed. All objects of a move are copied before
the first one is removed, so that a process that is killed in between leaves each of them at one of
the two places or, with the same content, at both. Undoing a move copies back what is missing.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath, in_parallel


def move(path: StorePath, target: StorePath) -> None:
    """Move an object or a directory to a name that does not exist."""
    move_all([(path, target)])


def move_all(moves: Sequence[tuple[StorePath, StorePath]]) -> None:
    """Move several objects or directories at the same time, each to a name that does not exist."""
    pairs: list[tuple[StorePath, StorePath]] = []
    for path, target in moves:
        if target.exists():
            raise _taken(target)
        found = _pairs(path, target)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "Not moved, because it does not exist", str(path))
        pairs += found
    copy_all(pairs)
    _delete_all([path for path, _ in pairs])


def move_back(moved: StorePath, path: StorePath) -> None:
    """Undo a move that may have been interrupted, or may not have started."""
    move_all_back([(moved, path)])


def move_all_back(moves: Sequence[tuple[StorePath, StorePath]]) -> None:
    """Undo several moves at the same time."""
    for moved, path in moves:
        if not agree(moved, path):
            raise _taken(path)
    pairs = [pair for moved, path in moves for pair in _pairs(moved, path)]
    copy_all([pair for pair in pairs if not pair[1].is_file()])
    _delete_all([moved for moved, _ in pairs])


def _delete_all(paths: Sequence[StorePath]) -> None:
    """Remove objects, with as few requests as possible."""
    by_tree: dict[int, list[StorePath]] = {}
    for path in paths:
        by_tree.setdefault(id(path.tree), []).append(path)
    for group in by_tree.values():
        group[0].tree.delete([path.key for path in group])


def agree(moved: StorePath, path: StorePath) -> bool:
    """Whether the objects that are at both places have the same content."""
    both = [(kept, there) for kept, there in _pairs(moved, path) if there.is_file()]
    return all(kept.read_bytes() == there.read_bytes() for kept, there in both)


def remove(path: StorePath) -> None:
    """Remove an object, or all objects below a directory."""
    tree = path.tree
    names = [path.key] if path.is_file() else tree.files(path.key)
    if names:
        tree.delete(names)


def keep(path: StorePath, kept: StorePath) -> None:
    """Copy an object that is going to be replaced to a second name."""
    copy_file(path, kept)


def put_back(kept: StorePath, path: StorePath) -> None:
    """Undo a replacement: copy the kept object back to its name, and remove it."""
    copy_file(kept, path)
    remove(kept)


def write_over(path: StorePath, content: bytes) -> None:
    """Create or replace an object."""
    path.tree.put(path.key, content)


def copy_all(pairs: Sequence[tuple[CheckpointPath, CheckpointPath]]) -> None:
    """Copy files, some at the same time."""
    in_parallel(lambda pair: copy_file(*pair), pairs)


def copy_file(path: CheckpointPath, target: CheckpointPath) -> None:
    """Copy a file within a store, between two stores, or between a store and a directory.

    Creates the directory of a local target. Replaces a target in a store.
    """
    if isinstance(path, StorePath) and isinstance(target, StorePath):
        client, other = path.tree.client, target.tree.client
        key, size = path.tree.key(path.key), path.stat().st_size
        with target.tree.changing(target.key, size) as new:
            if client.identity == other.identity:
                client.copy(key, new)
            else:
                other.put(new, client.get(key))
    elif isinstance(target, StorePath):
        local = Path(str(path))
        with target.tree.changing(target.key, local.stat().st_size) as new:
            target.tree.client.upload(local, new)
    else:
        local = Path(str(target))
        local.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(path, StorePath):
            path.tree.client.download(path.tree.key(path.key), local)
        else:
            shutil.copy2(str(path), local)


def _pairs(path: StorePath, target: StorePath) -> list[tuple[StorePath, StorePath]]:
    """Every object at or below a path, with its name at or below the target."""
    if path.is_file():
        return [(path, target)]
    return [(file, target / file.relative_to(path).as_posix()) for file in path.files_below()]


def _taken(target: StorePath) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "Not moved, because the target exists", str(target))
