"""The advisory lock on a local checkpoint.

A Penstock query holds the lock on `.penstock/lock` while it runs; the operating system releases it
when the process ends, so it is never stale. A command that changes the checkpoint takes the same
lock. A lock held on another machine is detected only if the file system supports `flock` across
machines.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import socket
import time
from pathlib import Path
from types import TracebackType

from penstock.checkpoint.own_files import OWN_DIRECTORY, REPARTITION, interrupted_command
from penstock.checkpoint.paths import CheckpointPath
from penstock.errors import CheckpointInUseError

_logger = logging.getLogger(__name__)

_LOCK_NAME = "lock"
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
        """Take the lock. Raises CheckpointInUseError, with the holder, if another has it."""
        if self._descriptor is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "owner": self._owner}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        except BlockingIOError as exc:
            os.close(descriptor)
            raise CheckpointInUseError(
                f"{self._path.parent.parent} is in use by {_holder(self._path)}. Stop it first."
            ) from exc
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. The file is kept: if it were removed, two could hold the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

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


def hold_for_query(root: Path, query: str) -> CheckpointLock | None:
    """Take the lock for a query. Returns None if that fails: the query then runs without it.

    If another query has the lock, both run until one of them finds that the other has written its
    log entry. A query of another process is named in a warning. Raises CheckpointInUseError while
    a command changes the checkpoint, and if a command was interrupted.
    """
    interrupted = interrupted_command(root)
    if interrupted is not None:
        raise CheckpointInUseError(
            f"{root} is partly changed: `penstock checkpoint {interrupted.operation}` was "
            f"interrupted. Undo it first: penstock checkpoint undo {root} --yes"
        )
    lock = CheckpointLock(root, query)
    for _ in range(_ATTEMPTS):
        try:
            lock.acquire()
        except OSError:
            return None
        except CheckpointInUseError:
            holder = current_holder(root)
            if holder is not None:
                _refuse_beside_command(root, holder)
                _warn_of_query(root, holder)
                return None
            # Another process only tested the lock, for which it has to take it for a moment.
            time.sleep(_SECONDS_BETWEEN)
        else:
            # A command that was killed has left its links to state files, which occupy space.
            shutil.rmtree(root / REPARTITION, ignore_errors=True)
            return lock
    return None


def _refuse_beside_command(root: Path, holder: str) -> None:
    if holder.startswith("penstock checkpoint "):
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
    path = Path(str(root)) / OWN_DIRECTORY / _LOCK_NAME
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
        return "a process that holds its lock"


def _process(pid: int, host: str) -> str:
    return f"(process {pid} on {host})"
