"""A query's hold on its checkpoint, for those who would change the checkpoint meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from penstock.checkpoint.tools.activity import CheckpointLock, activity_of
from penstock.checkpoint.tools.backup import interrupted
from penstock.errors import CheckpointInUseError

_ATTEMPTS = 10
_SECONDS_BETWEEN = 0.05


def hold_for_query(root: Path, query: str) -> CheckpointLock | None:
    """The lock, held; None where it cannot be had, and the query runs without it.

    Another query is no obstacle: which of the two goes on is decided by the logs. Raises
    CheckpointInUseError while a command changes the checkpoint, and if one was interrupted.
    """
    unfinished = interrupted(root)
    if unfinished is not None:
        raise CheckpointInUseError(
            f"{root} is half changed: `penstock checkpoint {unfinished.operation}` was "
            f"interrupted. Take it back first: penstock checkpoint undo {root} --yes"
        )
    lock = CheckpointLock(root, query)
    for _ in range(_ATTEMPTS):
        try:
            lock.acquire()
        except OSError:
            return None
        except CheckpointInUseError:
            holder = activity_of(root).holder
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
