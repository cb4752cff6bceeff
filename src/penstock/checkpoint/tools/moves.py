"""Atomic moves and replacements of files and directories; for object stores see `store_moves`.

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
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from penstock.checkpoint.local_files import NO_HARD_LINKS
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import store_moves

_NO_LINK = NO_HARD_LINKS | {errno.EMLINK, errno.EXDEV}


def exists(path: CheckpointPath) -> bool:
    """Whether a name exists. A dangling symbolic link exists too."""
    return os.path.lexists(path) if isinstance(path, Path) else path.exists()


def move(path: CheckpointPath, target: CheckpointPath) -> None:
    """Move a file or directory to a name that does not exist. On an error nothing has moved."""
    if isinstance(path, StorePath) and isinstance(target, StorePath):
        store_moves.move(path, target)
    else:
        _move(*_local(path, target))


def _move(path: Path, target: Path) -> None:
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


def move_back(moved: CheckpointPath, path: CheckpointPath) -> None:
    """Undo a move that may have been interrupted, or may not have started."""
    if isinstance(moved, StorePath) and isinstance(path, StorePath):
        store_moves.move_back(moved, path)
    elif exists(moved) and exists(path) and is_same(moved, path):
        remove(moved)
    elif exists(moved):
        move(moved, path)


def remove(path: CheckpointPath) -> None:
    """Remove a file or directory. A directory is renamed first, so its name is free at once."""
    if isinstance(path, StorePath):
        store_moves.remove(path)
    else:
        _remove(*_local(path))


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    aside = _temporary(path)
    os.rename(path, aside)
    shutil.rmtree(aside)


def agree(moved: CheckpointPath, path: CheckpointPath) -> bool:
    """Whether two names that both exist can be those of a move that was interrupted."""
    if isinstance(moved, StorePath) and isinstance(path, StorePath):
        return store_moves.agree(moved, path)
    return is_same(moved, path)


def is_same(one: CheckpointPath, other: CheckpointPath) -> bool:
    """Whether two local files or directories have the same content, recursively."""
    one, other = _local(one, other)
    return _content(one) == _content(other)


def keep(path: CheckpointPath, kept: CheckpointPath) -> None:
    """Link a file that is going to be replaced to a second name; copy it if it cannot be linked."""
    if isinstance(path, StorePath) and isinstance(kept, StorePath):
        store_moves.keep(path, kept)
        return
    path, kept = _local(path, kept)
    try:
        os.link(path, kept)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        _write_over(kept, path.read_bytes(), like=path)


def create_from(origin: Path, path: CheckpointPath) -> bool:
    """Create a local file, durably, with the content of another one, which must not change.

    Returns False if the name exists. The new name is a link to the same file if that is possible.
    """
    (path,) = _local(path)
    sync(origin)
    try:
        os.link(origin, path)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        if exists(path):
            return False
        _copy(origin, path)
    return True


def remove_empty(directory: CheckpointPath, root: CheckpointPath) -> None:
    """Remove a local directory, and those it is in below `root`, as long as they are empty."""
    while isinstance(directory, Path) and directory.parent != root and directory != root:
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


def put_back(kept: CheckpointPath, path: CheckpointPath) -> None:
    """Undo a replacement: move the kept file back to its name."""
    if isinstance(path, StorePath) and isinstance(kept, StorePath):
        store_moves.put_back(kept, path)
        return
    kept, path = _local(kept, path)
    try:
        os.replace(kept, path)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        write_over(path, kept.read_bytes())
        kept.unlink()


def write_over(path: CheckpointPath, content: bytes) -> None:
    """Create or replace a file, atomically and durably. It keeps its mode and, as root, owner."""
    if isinstance(path, StorePath):
        store_moves.write_over(path, content)
    else:
        (path,) = _local(path)
        _write_over(path, content, like=path)


def _write_over(path: Path, content: bytes, like: Path) -> None:
    """`like` is the file whose mode and owner the new file has, if it exists."""
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as stream:
            _liken(stream.fileno(), like)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def _liken(descriptor: int, like: Path) -> None:
    """Give an open file the mode and, if possible, the owner of another one, if that exists."""
    try:
        status = like.stat()
    except OSError:
        return
    if os.geteuid() == 0:
        with suppress(
            OSError
        ):  # not every file system has owners, and root may not set them on NFS
            os.fchown(descriptor, status.st_uid, status.st_gid)
    with suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def sync(path: CheckpointPath) -> None:
    """Sync a file, or the names in a directory, to disk. In a store they are durable already."""
    if isinstance(path, StorePath):
        return
    descriptor = os.open(str(path), os.O_RDONLY)
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


def _local(*paths: CheckpointPath) -> tuple[Path, ...]:
    """Raises ValueError if one of the paths is in a store and another is not."""
    for path in paths:
        if not isinstance(path, Path):
            raise ValueError(f"not a local path: {path}")
    return tuple(Path(str(path)) for path in paths)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
