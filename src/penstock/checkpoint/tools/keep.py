"""Accepts a partly changed checkpoint as it is, where `undo` is not possible.

Spark's engine does not know that a command was interrupted. Once it has run on the checkpoint,
reverting the command would mix older files with those of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.commands import undo_of
from penstock.checkpoint.own_files import MANIFEST, manifests_of
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.tools import moves
from penstock.checkpoint.tools.backup import Backup, backup_at, check_undo, mark_kept
from penstock.errors import MalformedLogError, SurgeryRefusedError

_UNREADABLE = f"{MANIFEST}.unreadable"


@dataclass(frozen=True)
class Kept:
    """A command that was interrupted and cannot be undone."""

    path: CheckpointPath
    """The directory of its backup, which stays."""
    backup: Backup | None
    """None if the manifest cannot be read, so that it is not known what the command was."""

    @property
    def operation(self) -> str:
        return self.backup.operation if self.backup else "a command with an unreadable manifest"

    def to_dict(self) -> dict[str, Any]:
        return {"backup": str(self.path), "operation": self.operation}


def check_keep(root: CheckpointPath) -> Kept:
    """The oldest command that `keep` ends. Raises SurgeryRefusedError if there is none.

    And if the command can be undone: what it has left was never meant to be used.
    """
    for manifest in manifests_of(root):
        try:
            backup = backup_at(manifest.parent)
        except MalformedLogError:
            return Kept(manifest.parent, None)
        if not backup.is_done:
            _refuse_if_undoable(root, backup)
            return Kept(backup.path, backup)
    raise SurgeryRefusedError(f"There is nothing to keep: no command on {root} was interrupted.")


def _refuse_if_undoable(root: CheckpointPath, backup: Backup) -> None:
    try:
        check_undo(root)
    except SurgeryRefusedError:
        return
    raise SurgeryRefusedError(
        f"{backup.operation} was interrupted and can be undone, since no query has run after it: "
        f"{undo_of(root)}"
    )


def keep(root: CheckpointPath, kept: Kept) -> None:
    """Count the command as finished, or put its unreadable manifest aside. No other file changes.

    Call it inside `activity.exclusive`.
    """
    if kept.backup is None:
        moves.move(kept.path / MANIFEST, kept.path / _UNREADABLE)
        moves.sync(kept.path)
    else:
        mark_kept(root, kept.backup)
