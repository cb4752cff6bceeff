"""The advisory lock on a local checkpoint.

A Penstock query holds the lock on `.penstock/lock` while it runs; the operating system releases it
when the process ends, so it is never stale: a forked child, as of `multiprocessing`, does not keep
it. A command that changes the checkpoint takes the same
lock. A lock held on another machine is detected only if the file system supports `flock` across
machines.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pwd
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from penstock.checkpoint.own_files import (
    OWN_DIRECTORY,
    REPARTITION,
    interrupted_command,
    partly_changed,
)
from penstock.checkpoint.paths import CheckpointPath
from penstock.errors import CheckpointError, CheckpointInUseError

_logger = logging.getLogger(__name__)

_LOCK_NAME = "lock"
_COMMAND = "penstock checkpoint "
_UNKNOWN_HOLDER = "a process that holds its lock"
_ATTEMPTS = 10
_SECONDS_BETWEEN = 0.05


class CheckpointLock:
    """The advisory lock on a local checkpoint, held from `acquire` to `release`.

    Only one object can hold it, also within one process. Both methods are idempotent.
    """

    def __init__(self, root: str | os.PathLike[str], owner: str) -> None:
        """`owner` describes the holder in the messages of others that want the lock."""
        self._path = Path(root) / OWN_DIRECTORY / _LOCK_NAME
        self._owner = owner
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises CheckpointInUseError, with the holder, if another has it.

        Raises CheckpointError for a command of a user who may not write to the lock file.
        """
        holder = self.try_acquire()
        if holder is not None:
            root = self._path.parent.parent
            raise CheckpointInUseError(f"{root} is in use by {holder}. Stop it first.")

    def try_acquire(self) -> str | None:
        """Take the lock. Returns a description of the holder if another has it, else None."""
        if self._descriptor is not None:
            return None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_ATTEMPTS):
            self._descriptor = self._take()
            if self._descriptor is not None:
                _held.add(self)
                return None
            holder = _holder_at(self._path)
            if holder is not None and holder != _UNKNOWN_HOLDER:
                return holder
            # Another process only tested the lock, for which it has to take it for a moment, or it
            # has just taken it and has not written its name yet.
            time.sleep(_SECONDS_BETWEEN)
        return _UNKNOWN_HOLDER

    def _take(self) -> int | None:
        """The descriptor of the locked file, with the holder as its content; None if it is taken.

        If this user may not write to the file, its content stays empty. Raises CheckpointError for
        a command then: a query that starts would take it for another query, and run beside it.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            can_write = True
        except PermissionError as exc:
            if is_command(self._owner):
                raise _not_writable(self._path, self._owner) from exc
            try:
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise exc from None  # it does not exist, since this user may not create it
            can_write = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "owner": self._owner}
            if can_write:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        except BaseException as exc:
            os.close(descriptor)
            if isinstance(exc, BlockingIOError):
                return None
            raise
        return descriptor

    def release(self) -> None:
        """Release the lock. The file is kept: if it were removed, two could hold the lock.

        It is emptied, for a next holder that may not write to it.
        """
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a child may have just been forked
            self._close()

    def _close(self) -> None:
        """Close the file, and with it the lock if no other process has the same open file."""
        descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> CheckpointLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


_held: WeakSet[CheckpointLock] = WeakSet()


def _forget_held() -> None:
    """In a forked child: the open files are those of the parent, and keep its locks."""
    for lock in list(_held):
        lock._close()


os.register_at_fork(after_in_child=_forget_held)


def hold_for_query(root: Path, query: str) -> CheckpointLock | None:
    """Take the lock for a query. Returns None if that fails: the query then runs without it.

    If another query has the lock, both run until one of them finds that the other has written its
    log entry. A query of another process is named in a warning. Raises CheckpointInUseError while
    a command changes the checkpoint, and if a command was interrupted.
    """
    _refuse_interrupted(root)
    lock = CheckpointLock(root, query)
    try:
        holder = lock.try_acquire()
    except OSError as exc:
        _logger.warning(
            "The query runs without the lock on %s, so `penstock checkpoint` does not know that it "
            "is running: stop it before a command. %s",
            root,
            exc,
        )
        return None
    if holder is not None:
        _refuse_beside_command(root, holder)
        _warn_of_query(root, holder)
        return None
    try:
        _refuse_interrupted(root)  # a command may have begun since, and may have been killed
    except BaseException:
        lock.release()
        raise
    # A command that was killed has left its links to state files, which occupy space.
    shutil.rmtree(root / REPARTITION, ignore_errors=True)
    return lock


def _refuse_interrupted(root: Path) -> None:
    interrupted = interrupted_command(root)
    if interrupted is not None:
        holder = current_holder(root)
        if holder is not None:
            _refuse_beside_command(root, holder)  # it is still running
        raise partly_changed(root, interrupted.operation)


def owner_of(operation: str) -> str:
    """The owner of a lock that a `penstock checkpoint` command takes."""
    return f"{_COMMAND}{operation}"


def is_command(holder: str) -> bool:
    """Whether the description of a holder is that of a command, and not of a query."""
    return holder.startswith(_COMMAND)


def _refuse_beside_command(root: Path, holder: str) -> None:
    if is_command(holder):
        raise CheckpointInUseError(
            f"{root} is being changed by {holder}. Start the query again when it has finished."
        )


def _warn_of_query(root: Path, holder: str) -> None:
    if not holder.endswith(_process(os.getpid(), socket.gethostname())):
        _logger.warning(
            "%s is used by %s. Only one query can use a checkpoint at a time: the next log entry "
            "that both want to write fails one of them. Stop one of the two.",
            root,
            holder,
        )


def current_holder(root: CheckpointPath) -> str | None:
    """A description of the holder of a checkpoint's lock; None if it is free."""
    return _holder_at(Path(str(root)) / OWN_DIRECTORY / _LOCK_NAME)


def _holder_at(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(path)
    finally:
        os.close(descriptor)
    return None


def _holder(path: Path) -> str:
    try:
        fields = json.loads(path.read_text())
        return f"{fields['owner']} {_process(fields['pid'], fields['host'])}"
    except (OSError, ValueError, KeyError, TypeError):
        return _UNKNOWN_HOLDER


def _not_writable(path: Path, command: str) -> CheckpointError:
    place = path if os.path.exists(path) else path.parent
    return CheckpointError(
        f"{place} belongs to {_user_of(place)}, and this user may not write to it, so no query "
        f"could see that `{command}` is running. Run it as that user, or let this user write to "
        f"{place}."
    )


def _user_of(path: Path) -> str:
    uid = path.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def _process(pid: int, host: str) -> str:
    return f"(process {pid} on {host})"
