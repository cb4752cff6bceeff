"""Atomic moves and replacements of files and directories.

Within a file system a move is a rename. Between two file systems (`state` may be a link to another
disk) the source is copied to a temporary name, the copy is renamed, and then the source is removed;
a directory is renamed before it is removed. A crash in between leaves two identical copies, or one
and a `.tmp`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import uuid
from pathlib import Path

_NO_LINK = {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV}


def exists(path: Path) -> bool:
    """Whether a name exists. A dangling symbolic link exists too."""
    return os.path.lexists(path)


def move(path: Path, target: Path) -> None:
    """Move a file or directory to a name that does not exist. On an error nothing has moved."""
    if exists(target):
        raise FileExistsError(errno.EEXIST, "Not moved, because the target exists", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(path, target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _copy(path, target)
        remove(path)


def move_back(moved: Path, path: Path) -> None:
    """Undo a move that may have been interrupted, or may not have started."""
    if exists(moved) and exists(path) and is_same(moved, path):
        remove(moved)
    elif exists(moved):
        move(moved, path)


def remove(path: Path) -> None:
    """Remove a file or directory. A directory is renamed first, so its name is free at once."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    aside = _temporary(path)
    os.rename(path, aside)
    shutil.rmtree(aside)


def is_same(one: Path, other: Path) -> bool:
    """Whether two files or directories have the same content, recursively."""
    return _content(one) == _content(other)


def keep(path: Path, kept: Path) -> None:
    """Link a file that is going to be replaced to a second name; copy it if it cannot be linked."""
    try:
        os.link(path, kept)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        write_over(kept, path.read_bytes())


def put_back(kept: Path, path: Path) -> None:
    """Undo a replacement: move the kept file back to its name."""
    try:
        os.replace(kept, path)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        write_over(path, kept.read_bytes())
        kept.unlink()


def write_over(path: Path, content: bytes) -> None:
    """Create or replace a file, atomically and durably."""
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(path: Path, target: Path) -> None:
    """Copy a file or directory to another file system, atomically and durably."""
    temporary = _temporary(target)
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, temporary, symlinks=True)
        else:
            shutil.copy2(path, temporary, follow_symlinks=False)
        for copied in (temporary, *temporary.rglob("*")):
            if not copied.is_symlink():
                sync(copied)
        os.rename(temporary, target)
        sync(target.parent)
    finally:
        if exists(temporary):
            remove(temporary)


def _content(path: Path) -> dict[str, str]:
    """Everything at and below a path: digests of files, targets of links, directories."""
    found = {}
    for part in (path, *path.rglob("*")):
        name = part.relative_to(path).as_posix()
        if part.is_symlink():
            found[name] = f"link to {part.readlink()}"
        elif part.is_dir():
            found[name] = "directory"
        else:
            found[name] = hashlib.sha256(part.read_bytes()).hexdigest()
    return found


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
