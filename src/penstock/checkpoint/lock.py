"""The advisory lock on a local checkpoint, and a query's hold on it.

A Penstock query holds the lock on `.penstock/lock` for as long as it runs; the operating system
drops it with the process, so it is never stale. A command that changes the checkpoint takes the
same lock. A lock on another machine is not noticed where the file system does not carry `flock`
across machines.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType

from penstock.checkpoint.own_files import OWN_DIRECTORY, interrupted_command
from penstock.errors import CheckpointInUseError

_LOCK_NAME = "lock"
_ATTEMPTS = 10
_SECONDS_BETWEEN = 0.05


class CheckpointLock:
    """The advisory lock on a local checkpoint, held from `acquire` to `release`.

    Holding it twice, in one process or in two, is refused. Both methods may be called again.
    """

    def __init__(self, root: str | os.PathLike[str], owner: str) -> None:
        """`owner` is what others are told about who holds the lock."""
        self._path = Path(root) / OWN_DIRECTORY / _LOCK_NAME
        self._owner = owner
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises CheckpointInUseError, naming the holder, if it is taken."""
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
        """Give the lock back. The file stays: removing it would let two hold the lock."""
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
    """The lock, held; None where it cannot be had, and the query runs without it.

    Another query is no obstacle: which of the two goes on is decided by the logs. Raises
    CheckpointInUseError while a command changes the checkpoint, and if one was interrupted.
    """
    interrupted = interrupted_command(root)
    if interrupted is not None:
        raise CheckpointInUseError(
            f"{root} is half changed: `penstock checkpoint {interrupted.operation}` was "
            f"interrupted. Take it back first: penstock checkpoint undo {root} --yes"
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
                return None
            # Somebody looked whether it is held, for which it has to be taken for a moment.
            time.sleep(_SECONDS_BETWEEN)
        else:
            return lock
    return None


def _refuse_beside_command(root: Path, holder: str) -> None:
    if holder.startswith("penstock checkpoint "):
        raise CheckpointInUseError(
            f"{root} is being changed by {holder}. Start the query again when that is done."
        )


def current_holder(root: Path) -> str | None:
    """Who holds the lock of a checkpoint; None if nobody does."""
    path = root / OWN_DIRECTORY / _LOCK_NAME
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
        return f"{fields['owner']} (process {fields['pid']} on {fields['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that holds its lock"
