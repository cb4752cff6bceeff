"""Applies a plan so that it can be undone, also after an interruption.

    .penstock/backups/0001/manifest.json     the changes in order, and whether all are done
    .penstock/backups/0001/files/3           what was at the path of change 3 before; for a move,
                                             an empty file that says that the move has started

1. The manifest is written, with `isDone` false.
2. The changes are made in order. A file that is replaced is first linked into the backup, a file or
   directory that is deleted is moved there: nothing is lost and nothing is copied.
3. `isDone` is set to true in the manifest.

`revert` sets `isDone` to false, goes through the changes in reverse order and reverts those that
were made. It therefore also works for an interrupted command, and can be repeated if it is
interrupted itself. If a change fails, `apply` reverts the plan at once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.checkpoint.own_files import BACKUPS, MANIFEST, interrupted_command, manifests_of
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import moves, store_moves
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.locations import files_at, undo_of
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, SurgeryRefusedError

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
    """The newest batch in the offset log and in the commit log after the command."""
    changes: tuple[dict[str, Any], ...]

    @property
    def number(self) -> int:
        return int(self.path.name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "backup": str(self.path),
            "operation": self.operation,
            "madeAtMs": self.made_at_ms,
            "isDone": self.is_done,
        }


def backups_of(root: CheckpointPath) -> list[Backup]:
    """The backups below a checkpoint, oldest first."""
    return [_read(manifest.parent) for manifest in manifests_of(root)]


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
                _make(root, plan.changes[numbers[0]], _kept(backup, numbers[0]))
        _sync_all(root, backup)
    except BaseException as exc:
        _revert_failed(root, backup, exc)
        raise
    after = CheckpointView(root)
    newest = (after.offsets.newest, after.commits.newest)
    done = replace(backup, is_done=True, newest=newest)
    _write(done)
    return done


def refuse_interrupted(root: CheckpointPath) -> None:
    """Raise SurgeryRefusedError if an earlier command on the checkpoint was interrupted."""
    unfinished = interrupted_command(root)
    if unfinished is not None:
        raise SurgeryRefusedError(
            f"An earlier command ({unfinished.operation}) was interrupted. Undo it first: "
            f"{undo_of(root)}"
        )


def check_undo(root: CheckpointPath) -> Backup:
    """The newest backup, which `undo` reverts. Raises SurgeryRefusedError if that is not possible.

    It is not possible after a query has used the checkpoint: reverted files and files of that query
    would not belong together.
    """
    backups = backups_of(root)
    if not backups:
        raise SurgeryRefusedError(f"There is nothing to undo: {root} has no backup.")
    backup = backups[-1]
    view = CheckpointView(root)
    if backup.is_done and backup.newest != (view.offsets.newest, view.commits.newest):
        raise _progressed(
            backup, f"the newest batch was {backup.newest[0]}, now {view.newest_batch}"
        )
    for what in _uses(root, backup):
        raise _progressed(backup, what)
    return backup


def reversal(root: CheckpointPath, backup: Backup) -> list[dict[str, Any]]:
    """The steps of `revert`, in order: `delete`, `move` or `restore` a path."""
    steps: list[dict[str, Any]] = []
    for number in reversed(range(len(backup.changes))):
        change, kept = backup.changes[number], _kept(backup, number)
        path = change["path"]
        if Kind(change["change"]) is Kind.CREATE:
            if (root / path).exists():
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
            _unmake(root, backup.changes[numbers[0]], _kept(backup, numbers[0]))
    _sync_all(root, backup)
    moves.remove(backup.path / MANIFEST)
    if backup.path.exists():
        moves.remove(backup.path)
    moves.sync(backup.path.parent)


def _revert_failed(root: CheckpointPath, backup: Backup, failure: BaseException) -> None:
    """Revert a command that failed. If that fails too, raise an error with both causes."""
    try:
        revert(root, backup)
    except OSError as exc:
        why = str(failure).rstrip(".") or type(failure).__name__
        raise CheckpointError(
            f"{backup.operation} failed: {why}. Undoing it failed as well: {exc}. "
            f"When the cause is removed, run: {undo_of(root)}"
        ) from failure


def _uses(root: CheckpointPath, backup: Backup) -> Iterator[str]:
    """Descriptions of the files that were written by something else after the command."""
    for number, change in enumerate(backup.changes):
        kept, path = _kept(backup, number), root / change["path"]
        kind = Kind(change["change"])
        if not moves.exists(path) or (kind is not Kind.CREATE and not moves.exists(kept)):
            continue
        if kind is Kind.DELETE:
            if not _is_filled(backup, number) and (backup.is_done or not moves.agree(kept, path)):
                yield f"{path} has been written again"
        elif backup.is_done and "digest" in change and _digest_of(path) != change["digest"]:
            yield f"{path} has been changed"


def _is_filled(backup: Backup, number: int) -> bool:
    """Whether a later change of the same command puts something at the path of a change."""
    path = backup.changes[number]["path"]
    return any(
        later.get("to") == path or (Kind(later["change"]) is Kind.CREATE and later["path"] == path)
        for later in backup.changes[number + 1 :]
    )


def _progressed(backup: Backup, what: str) -> SurgeryRefusedError:
    return SurgeryRefusedError(
        f"{backup.operation} cannot be undone: the checkpoint has been used since ({what}). "
        f"The previous files are in {backup.path}."
    )


def _begin(root: CheckpointPath, plan: Plan) -> Backup:
    directory = root / BACKUPS
    taken = [int(p.name) for p in directory.glob("*") if p.name.isdigit()]
    path = directory / f"{max(taken, default=0) + 1:04d}"
    files_at(root).make_directory(f"{BACKUPS}/{path.name}/files")
    changes = []
    for change in plan.changes:
        described: dict[str, Any] = {"change": change.kind.value, "path": change.path}
        if change.target is not None:
            described["to"] = change.target
        if change.content is not None:
            described["digest"] = _digest(change.content)
        elif change.origin is not None:
            described["digest"] = _digest_of(change.origin)
        changes.append(described)
    backup = Backup(
        path, plan.operation, int(time.time() * 1000), False, (None, None), tuple(changes)
    )
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
    path, kept = root / backup.changes[number]["path"], _kept(backup, number)
    assert isinstance(path, StorePath)
    assert isinstance(kept, StorePath)
    return path, kept


def _make(root: CheckpointPath, change: Change, kept: CheckpointPath) -> None:
    path = root / change.path
    if change.kind is Kind.CREATE:
        files = files_at(root)
        files.make_directory(change.path.rpartition("/")[0])
        if change.origin is not None:
            is_new = moves.create_from(change.origin, path)
        else:
            is_new = files.create_if_absent(change.path, change.content or b"")
        if not is_new:
            raise SurgeryRefusedError(f"{path} was created by something else in the meantime.")
    elif change.kind is Kind.REPLACE:
        moves.keep(path, kept)
        moves.write_over(path, change.content or b"")
    elif change.kind is Kind.DELETE:
        moves.move(path, kept)
    else:
        _make_move(path, root / str(change.target), kept)


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
        if path.exists() and _digest_of(path) == change["digest"]:
            moves.remove(path)
        moves.remove_empty(path.parent, root)
    elif kind is Kind.REPLACE:
        if kept.exists():
            moves.put_back(kept, path)
    elif kind is Kind.DELETE:
        moves.move_back(kept, path)
    elif kept.exists():
        moves.move_back(root / change["to"], path)
        moves.remove(kept)


def _kept(backup: Backup, number: int) -> CheckpointPath:
    return backup.path / "files" / str(number)


def _write(backup: Backup) -> None:
    document = {
        "operation": backup.operation,
        "madeAtMs": backup.made_at_ms,
        "isDone": backup.is_done,
        "newest": list(backup.newest),
        "changes": list(backup.changes),
    }
    moves.write_over(backup.path / MANIFEST, json.dumps(document, indent=1).encode())


def _read(path: CheckpointPath) -> Backup:
    fields = json.loads((path / MANIFEST).read_text())
    newest = tuple(fields["newest"])
    return Backup(
        path,
        fields["operation"],
        fields["madeAtMs"],
        fields["isDone"],
        (newest[0], newest[1]),
        tuple(fields["changes"]),
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(path: CheckpointPath) -> str:
    if isinstance(path, StorePath):
        return _digest(path.read_bytes())
    with open(str(path), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
