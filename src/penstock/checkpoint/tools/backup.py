"""Applies a plan so that it can be undone, also after an interruption.

    .penstock/backups/0001/manifest.json     the changes in order, and whether all are done
    .penstock/backups/0001/files/3           what was at the path of change 3 before; for a move,
                                             and for a new file that a query could write with the
                                             same content, an empty file that says that the change
                                             has started

1. The manifest is written, with `isDone` false.
2. The changes are made in order. A file that is replaced is first linked into the backup, a file or
   directory that is deleted is moved there: nothing is lost and nothing is copied.
3. `isDone` is set to true in the manifest.

`revert` sets `isDone` to false, goes through the changes in reverse order and reverts those that
were made. It therefore also works for an interrupted command, and can be repeated if it is
interrupted itself. If a change fails, `apply` reverts the plan at once.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from penstock.checkpoint.commands import undo_of
from penstock.checkpoint.own_files import (
    BACKUPS,
    MANIFEST,
    interrupted_command,
    manifests_of,
    read_manifest,
)
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import moves, store_moves
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.locations import files_at
from penstock.checkpoint.tools.uses import (
    NOT_RECORDED,
    digest,
    digest_of,
    is_created,
    newest_of,
    uses_since,
)
from penstock.errors import CheckpointError, MalformedLogError, SurgeryRefusedError

RESTORE = "restore"
"""The reversal of a deletion or a replacement: the previous file or directory is restored."""


@dataclass(frozen=True)
class Backup:
    """The backup that one command has made."""

    path: CheckpointPath
    operation: str
    made_at_ms: int
    is_done: bool
    newest: tuple[int | None, int | None]
    """The newest batch in the offset log and in the commit log: after the command or, if it has not
    finished, before it; NOT_RECORDED if an earlier version has not finished."""
    changes: tuple[dict[str, Any], ...]

    @property
    def number(self) -> int:
        return int(self.path.name)

    def kept(self, number: int) -> CheckpointPath:
        """Where the file of one of the changes is kept, or that which says that it has begun."""
        return self.path / "files" / str(number)

    def to_dict(self) -> dict[str, Any]:
        return {
            "backup": str(self.path),
            "operation": self.operation,
            "madeAtMs": self.made_at_ms,
            "isDone": self.is_done,
        }


def backups_of(root: CheckpointPath) -> list[Backup]:
    """The backups below a checkpoint, oldest first."""
    return [backup_at(manifest.parent) for manifest in manifests_of(root)]


def backup_at(path: CheckpointPath) -> Backup:
    """The backup in a directory. Raises MalformedLogError if its manifest cannot be read."""
    return read_manifest(path / MANIFEST, lambda fields: _described(path, fields))


def apply(root: CheckpointPath, plan: Plan) -> Backup:
    """Apply a plan, with a backup. On an error, all changes are reverted.

    Call it inside `activity.exclusive`. Raises SurgeryRefusedError if an earlier command was
    interrupted.
    """
    refuse_interrupted(root)
    backup = _begin(root, plan)
    try:
        for numbers in _together(root, backup):
            if len(numbers) > 1:
                store_moves.move_all([_deletion(root, backup, n) for n in numbers])
            else:
                _make(root, plan.changes[numbers[0]], backup.kept(numbers[0]))
        _sync_all(root, backup)
        done = mark_done(root, backup)
    except BaseException as exc:
        _revert_failed(root, backup, exc)
        raise
    return done


def mark_done(root: CheckpointPath, backup: Backup) -> Backup:
    """Record that a command has finished, with the checkpoint as it is now."""
    done = replace(backup, is_done=True, newest=newest_of(root))
    _write(done)
    return done


def mark_kept(root: CheckpointPath, backup: Backup) -> None:
    """Count an interrupted command as finished, though the checkpoint has been used since.

    The newest batches that are recorded stay those before the command, so that it is not undone.
    """
    if backup.newest == NOT_RECORDED:
        mark_done(root, backup)
    else:
        _write(replace(backup, is_done=True))


def refuse_interrupted(root: CheckpointPath) -> None:
    """Raise SurgeryRefusedError if an earlier command on the checkpoint was interrupted."""
    unfinished = interrupted_command(root)
    if unfinished is not None:
        try:
            check_undo(root)
            advice = f"Undo it first: {undo_of(root)}"
        except SurgeryRefusedError as exc:
            advice = str(exc)
        raise SurgeryRefusedError(
            f"An earlier command ({unfinished.operation}) was interrupted. {advice}"
        )


def remedy_of(root: CheckpointPath) -> str:
    """The command after which a partly changed checkpoint can be used: `undo`, with or without
    `--keep`.
    """
    try:
        check_undo(root)
    except (SurgeryRefusedError, MalformedLogError):
        return undo_of(root, keep=True)
    return undo_of(root)


def check_undo(root: CheckpointPath) -> Backup:
    """The newest backup, which `undo` reverts. Raises SurgeryRefusedError if that is not possible.

    It is not possible after a query has used the checkpoint: reverted files and files of that query
    would not belong together.
    """
    backups = backups_of(root)
    if not backups:
        raise SurgeryRefusedError(f"There is nothing to undo: {root} has no backup.")
    backup = backups[-1]
    for what in uses_since(root, backup):
        raise _progressed(root, backup, what)
    return backup


def reversal(root: CheckpointPath, backup: Backup) -> list[dict[str, Any]]:
    """The steps of `revert`, in order: `delete`, `move` or `restore` a path."""
    steps: list[dict[str, Any]] = []
    for number in reversed(range(len(backup.changes))):
        change, kept = backup.changes[number], backup.kept(number)
        path = change["path"]
        if Kind(change["change"]) is Kind.CREATE:
            if is_created(root, change, kept):
                steps.append({"change": Kind.DELETE.value, "path": path})
        elif moves.exists(kept):
            if Kind(change["change"]) is Kind.MOVE:
                steps.append({"change": Kind.MOVE.value, "path": change["to"], "to": path})
            else:
                steps.append({"change": RESTORE, "path": path})
    return steps


def revert(root: CheckpointPath, backup: Backup) -> None:
    """Undo a command. It can be called again after an interruption."""
    if backup.is_done:
        _write(replace(backup, is_done=False))
    for numbers in reversed(_together(root, backup)):
        if len(numbers) > 1:
            undone = [_deletion(root, backup, number) for number in numbers]
            store_moves.move_all_back([(kept, path) for path, kept in undone])
        else:
            _unmake(root, backup.changes[numbers[0]], backup.kept(numbers[0]))
    _sync_all(root, backup)
    moves.remove(backup.path / MANIFEST)
    if backup.path.exists():
        moves.remove(backup.path)
    moves.sync(backup.path.parent)


def _revert_failed(root: CheckpointPath, backup: Backup, failure: BaseException) -> None:
    """Revert a command that failed. If that fails too, raise an error with both causes.

    The command may have failed after its last write, so the manifest is read again.
    """
    try:
        revert(root, backup_at(backup.path))
    except (OSError, MalformedLogError) as exc:
        why = str(failure).rstrip(".") or type(failure).__name__
        raise CheckpointError(
            f"{backup.operation} failed: {why}. Undoing it failed as well: {exc}. "
            f"When the cause is removed, run: {undo_of(root)}"
        ) from failure


def _progressed(root: CheckpointPath, backup: Backup, what: str) -> SurgeryRefusedError:
    message = (
        f"{backup.operation} cannot be undone: the checkpoint has been used since ({what}). "
        f"The previous files are in {backup.path}."
    )
    if not backup.is_done:
        message += f" To accept the checkpoint as it is: {undo_of(root, keep=True)}"
    return SurgeryRefusedError(message)


def _begin(root: CheckpointPath, plan: Plan) -> Backup:
    directory = root / BACKUPS
    taken = [int(p.name) for p in directory.glob("*") if p.name.isdecimal()]
    path = directory / f"{max(taken, default=0) + 1:04d}"
    files_at(root).make_directory(f"{BACKUPS}/{path.name}/files")
    changes = []
    for change in plan.changes:
        described: dict[str, Any] = {"change": change.kind.value, "path": change.path}
        if change.target is not None:
            described["to"] = change.target
        if change.content is not None:
            described["digest"] = digest(change.content)
            if change.kind is Kind.CREATE:
                described["isMarked"] = True
        elif change.origin is not None:
            described["digest"] = digest_of(change.origin)
        changes.append(described)
    now = int(time.time() * 1000)
    backup = Backup(path, plan.operation, now, False, newest_of(root), tuple(changes))
    _write(backup)
    return backup


def _together(root: CheckpointPath, backup: Backup) -> list[list[int]]:
    """The numbers of the changes, in order, in groups that are made at the same time.

    In an object store, where each change is two requests, consecutive deletions of state files are
    a group: among them the order does not matter.
    """
    groups: list[list[int]] = []
    is_open = False
    for number, change in enumerate(backup.changes):
        is_deletion = Kind(change["change"]) is Kind.DELETE
        joins = isinstance(root, StorePath) and is_deletion and change["path"].startswith("state/")
        if joins and is_open:
            groups[-1].append(number)
        else:
            groups.append([number])
        is_open = joins
    return groups


def _deletion(root: CheckpointPath, backup: Backup, number: int) -> tuple[StorePath, StorePath]:
    """The path of a deletion in an object store, and where it is kept."""
    path, kept = root / backup.changes[number]["path"], backup.kept(number)
    assert isinstance(path, StorePath)
    assert isinstance(kept, StorePath)
    return path, kept


def _make(root: CheckpointPath, change: Change, kept: CheckpointPath) -> None:
    path = root / change.path
    if change.kind is Kind.CREATE:
        _create(root, change, kept)
    elif change.kind is Kind.REPLACE:
        moves.keep(path, kept)
        moves.write_over(path, change.content or b"")
    elif change.kind is Kind.DELETE:
        moves.move(path, kept)
    else:
        _make_move(path, root / str(change.target), kept)


def _create(root: CheckpointPath, change: Change, begun: CheckpointPath) -> None:
    """Create a file. If it has content, create the file `begun` first, to record that it has begun.

    Without that, `undo` could take the file of a query with the same content for this one. The
    files of a state, which have an origin, are never the same.
    """
    path, files = root / change.path, files_at(root)
    files.make_directory(change.path.rpartition("/")[0])
    if change.origin is not None:
        is_new = moves.create_from(change.origin, path)
    else:
        moves.write_over(begun, b"")
        is_new = files.create_if_absent(change.path, change.content or b"")
        if not is_new:
            moves.remove(begun)
    if not is_new:
        raise SurgeryRefusedError(f"{path} was created by something else in the meantime.")


def _make_move(path: CheckpointPath, target: CheckpointPath, begun: CheckpointPath) -> None:
    """Move within the checkpoint, after creating the file `begun` to record that it has started.

    When sources are reordered, the target of one move may be the origin of another.
    """
    if not moves.exists(target):
        moves.write_over(begun, b"")
    moves.move(path, target)


def _unmake(root: CheckpointPath, change: dict[str, Any], kept: CheckpointPath) -> None:
    path = root / change["path"]
    kind = Kind(change["change"])
    if kind is Kind.CREATE:
        if is_created(root, change, kept):
            moves.remove(path)
        if moves.exists(kept):
            moves.remove(kept)
        moves.remove_empty(path.parent, root)
    elif kind is Kind.REPLACE:
        if kept.exists():
            moves.put_back(kept, path)
    elif kind is Kind.DELETE:
        moves.move_back(kept, path)
    elif kept.exists():
        moves.move_back(root / change["to"], path)
        moves.remove(kept)


def _write(backup: Backup) -> None:
    document = {
        "operation": backup.operation,
        "madeAtMs": backup.made_at_ms,
        "isDone": backup.is_done,
        "newest": list(backup.newest),
        "changes": list(backup.changes),
    }
    moves.write_over(backup.path / MANIFEST, json.dumps(document, indent=1).encode())


def _described(path: CheckpointPath, fields: dict[str, Any]) -> Backup:
    newest = fields["newest"]
    return Backup(
        path,
        fields["operation"],
        fields["madeAtMs"],
        fields["isDone"],
        (newest[0], newest[1]),
        tuple(fields["changes"]),
    )


def _sync_all(root: CheckpointPath, backup: Backup) -> None:
    """Sync every directory in which the changes have created or removed names."""
    touched = {
        (root / change[key]).parent
        for change in backup.changes
        for key in change.keys() & {"path", "to"}
    }
    for directory in {*touched, backup.path / "files"}:
        if directory.is_dir():
            moves.sync(directory)
