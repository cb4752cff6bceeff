"""Checkpoint files in a local directory."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.paths import CheckpointPath, files_below

NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
"""The errors of `link(2)` on file systems that do not have it."""

_UNNAMED_UNSUPPORTED = {errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT}


class LocalFiles(CheckpointFiles):
    """A local directory with atomic, durable writes.

    A new file is written as an unnamed file (`O_TMPFILE`), synced, and then linked to its name; the
    link fails if the name exists. Then the directory is synced, so that the name survives a crash.
    A process that is killed before the link leaves no file. Where unnamed files are not supported a
    temporary file is used instead.
    """

    def __init__(self, root: str | os.PathLike[str], uri: str | None = None) -> None:
        """`uri` is the name of the directory for messages and for Spark; by default its path."""
        self._root = Path(root)
        self._uri = str(self._root) if uri is None else uri

    @property
    def root(self) -> str:
        return self._uri

    @property
    def local_path(self) -> Path:
        return self._root

    def create_if_absent(self, name: str, data: bytes) -> bool:
        target = self._root / name
        if target.exists():
            return False
        with _naming(target), _directory(target.parent) as directory:
            # Before the link, so that a crash in between leaves no file with a stale checksum.
            _unlink(twin_of(target))
            if not _link_new_file(target, data, directory):
                return False
            os.fsync(directory)
        return True

    def make_directory(self, name: str) -> None:
        self._make_directories(self._root / name)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def pin(self, directory: str) -> Callable[[], bool] | None:
        try:
            return _PinnedDirectory(self._root / directory)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list_names(self, directory: str) -> list[str]:
        try:
            with os.scandir(self._root / directory) as entries:
                return [entry.name for entry in entries if entry.is_file()]
        except FileNotFoundError:
            return []

    def list_directories(self, directory: str) -> list[str]:
        try:
            with os.scandir(self._root / directory) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def is_empty(self, directory: str) -> bool:
        try:
            with os.scandir(self._root / directory) as entries:
                return next(entries, None) is None
        except FileNotFoundError:
            return True

    def delete(self, name: str) -> None:
        target = self._root / name
        _unlink(target)
        _unlink(twin_of(target))

    def delete_all(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root)

    def remove_checksum_twins(self, directory: str) -> None:
        """Remove the checksum files below a directory, but not the files they belong to.

        Call it before rewriting files without checksums: Hadoop's checksummed file system reads a
        file that has no checksum file, and rejects one with a stale checksum file.
        """
        for path in files_below(self._root / directory):
            if is_twin(path.name):
                _unlink(Path(str(path)))

    @staticmethod
    def _make_directories(directory: Path) -> None:
        """Create the directory and its parents, and sync the parent of each."""
        if directory.is_dir():
            return
        LocalFiles._make_directories(directory.parent)
        try:
            directory.mkdir(exist_ok=True)
        except FileExistsError as exc:
            what = "A file has the name of a directory of the checkpoint"
            raise NotADirectoryError(errno.ENOTDIR, what, str(directory)) from exc
        with _directory(directory.parent) as parent:
            os.fsync(parent)


class _PinnedDirectory:
    """Compares a path with a directory that it holds open, so that its inode is not reused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __call__(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._descriptor)


P = TypeVar("P", bound=CheckpointPath)


def twin_of(path: P) -> P:
    """The checksum file of a file in Hadoop's checksummed file system.

    If it is left behind when the file is deleted, Hadoop rejects the next file of that name.
    """
    return path.with_name(f".{path.name}.crc")


def is_twin(name: str) -> bool:
    """Whether a file name is that of a checksum file."""
    return name.startswith(".") and name.endswith(".crc")


def file_of(twin: P) -> P:
    """The file that a checksum file belongs to, whether it exists or not."""
    return twin.with_name(twin.name[1 : -len(".crc")])


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Add the file name to OSErrors that have none, such as those of a failed write."""
    try:
        yield
    except OSError as exc:
        if exc.filename is None:
            exc.filename = str(target)
        raise


@contextlib.contextmanager
def _naming_links(target: Path) -> Iterator[None]:
    """Say in an error that hard links are needed, if it may be because there are none."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in NO_HARD_LINKS:
            raise
        why = (
            f"{exc.strerror}. The file system seems to have no hard links, with which Penstock "
            "creates the files of a checkpoint. Use a directory on another one, or set "
            "spark.sql.streaming.checkpointFileManagerClass, so that a file manager of Spark "
            "writes them"
        )
        raise OSError(exc.errno, why, str(target)) from exc


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _link_new_file(target: Path, data: bytes, directory: int) -> bool:
    """Create `target` with `data`, synced. Returns False if the name exists."""
    unnamed = _open_unnamed(target.parent)
    if unnamed is None:
        return _link_from_temporary(target, data)
    try:
        _write_synced(unnamed, data)
        # The directory descriptor makes Python call linkat(2), which follows the /proc link.
        with _naming_links(target):
            os.link(f"/proc/self/fd/{unnamed}", target, src_dir_fd=directory, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(unnamed)
    return True


def _open_unnamed(parent: Path) -> int | None:
    """Open an unnamed file in `parent`; None if the system does not support it."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(parent, flag | os.O_WRONLY, 0o644)
    except OSError as exc:
        if exc.errno in _UNNAMED_UNSUPPORTED:
            return None
        raise


def _link_from_temporary(target: Path, data: bytes) -> bool:
    temporary = target.with_name(f".{target.name}.{uuid.uuid4()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            _write_synced(descriptor, data)
        finally:
            os.close(descriptor)
        with _naming_links(target):
            os.link(temporary, target)
    except FileExistsError:
        return False
    finally:
        _unlink(temporary)
    return True


def _write_synced(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
