"""Moving files and directories so that at any moment a name has all of it or nothing.

Within a file system a rename does that. Across two (`state` may be a link to another disk) what is
moved is copied under a temporary name, renamed, and only then removed from where it was; a
directory is renamed before it is removed. Whoever dies in between leaves both, alike, or one and a
`.tmp`.
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
    """Whether a name is taken, if only by a link that leads nowhere."""
    return os.path.lexists(path)


def move(path: Path, target: Path) -> None:
    """Move a file or directory to a name that is free. On an error it is still where it was."""
    if exists(target):
        raise FileExistsError(errno.EEXIST, "Not moved, since something is there", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(path, target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _copy(path, target)
        remove(path)


def move_back(moved: Path, path: Path) -> None:
    """Undo a move that was at least begun: both may be there, or it may never have been made."""
    if exists(moved) and exists(path) and is_same(moved, path):
        remove(moved)
    elif exists(moved):
        move(moved, path)


def remove(path: Path) -> None:
    """Remove a file or directory. The name is free at once, whatever becomes of the rest."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    aside = _temporary(path)
    os.rename(path, aside)
    shutil.rmtree(aside)


def is_same(one: Path, other: Path) -> bool:
    """Whether the same is at two names, all the way down."""
    return _content(one) == _content(other)


def keep(path: Path, kept: Path) -> None:
    """Give a file that is going to be replaced a second name."""
    try:
        os.link(path, kept)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        write_over(kept, path.read_bytes())


def put_back(kept: Path, path: Path) -> None:
    """Put what was kept in the place of what replaced it."""
    try:
        os.replace(kept, path)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        write_over(path, kept.read_bytes())
        kept.unlink()


def write_over(path: Path, content: bytes) -> None:
    """Put a file in the place of another, or of none, at once."""
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
    """Make a file, or the names in a directory, survive a crash of the system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(path: Path, target: Path) -> None:
    """Copy a file or directory to a name on another file system, at once and durably."""
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
    """What is at a path and below it: digests of files, what links say, and directories."""
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
