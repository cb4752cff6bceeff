"""Carrying out a plan so that it can be undone, even when it was interrupted.

    .penstock/backups/0001/manifest.json     what is done, in order, and how far it got
    .penstock/backups/0001/files/3           what was at the path of change 3 before it

1. The manifest is written, marked as begun.
2. The changes are made in order. What they replace is linked into the backup first; what they
   delete is moved there, so nothing is ever lost and large state costs no copying.
3. The manifest is marked as done.

Undoing goes through the changes backwards and reverts those that were made, so it serves for an
interrupted command as well; being interrupted itself, it can be repeated. A change that fails is
undone at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.view import OWN_DIRECTORY, CheckpointView
from penstock.errors import SurgeryRefusedError

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Backup:
    """What is needed to undo one command."""

    path: Path
    operation: str
    made_at_ms: int
    is_done: bool
    newest: tuple[int | None, int | None]
    """The newest entries of offset and commit log after the command."""
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


def backups_of(root: Path) -> list[Backup]:
    """The backups below a checkpoint, oldest first."""
    directory = root / OWN_DIRECTORY / "backups"
    numbered = [p for p in directory.iterdir() if p.name.isdigit()] if directory.is_dir() else []
    with_manifest = [p for p in numbered if (p / _MANIFEST).exists()]
    return [_read(path) for path in sorted(with_manifest, key=lambda p: int(p.name))]


def interrupted(root: Path) -> Backup | None:
    """The command that was begun on a checkpoint and not finished, if there is one."""
    return next((b for b in backups_of(root) if not b.is_done), None)


def apply(root: Path, plan: Plan) -> Backup:
    """Carry out a plan. Call it while no query can run. On an error everything is as it was."""
    unfinished = interrupted(root)
    if unfinished is not None:
        raise SurgeryRefusedError(
            f"An earlier command ({unfinished.operation}) was interrupted. Take it back first: "
            f"penstock checkpoint undo {root} --yes"
        )
    backup = _begin(root, plan)
    try:
        for number, change in enumerate(plan.changes):
            _make(root, change, _kept(backup, number))
        _sync_all(root, backup)
    except BaseException:
        revert(root, backup)
        raise
    after = CheckpointView(root)
    done = Backup(
        backup.path,
        backup.operation,
        backup.made_at_ms,
        True,
        (after.offsets.newest, after.commits.newest),
        backup.changes,
    )
    _write(done)
    return done


def check_undo(root: Path) -> Backup:
    """The backup that `undo` would revert. Raises SurgeryRefusedError if it must not be.

    It must not once a query has written to the checkpoint since: what it did would be mixed up with
    what was before.
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
    for number, change in enumerate(backup.changes):
        kept, path = _kept(backup, number), root / change["path"]
        if change["change"] == Kind.DELETE.value and kept.exists() and path.exists():
            raise _progressed(backup, f"{path} has been written again")
        made = change["change"] == Kind.CREATE.value and path.exists()
        made |= change["change"] == Kind.REPLACE.value and kept.exists() and path.exists()
        if made and backup.is_done and _digest(path.read_bytes()) != change["digest"]:
            raise _progressed(backup, f"{path} has been changed")
    return backup


def revert(root: Path, backup: Backup) -> None:
    """Put everything back as it was before a command. May be repeated after an interruption."""
    for number in reversed(range(len(backup.changes))):
        change = backup.changes[number]
        _unmake(root, change, _kept(backup, number))
    _sync_all(root, backup)
    (backup.path / _MANIFEST).unlink()
    shutil.rmtree(backup.path)
    _sync(backup.path.parent)


def _progressed(backup: Backup, what: str) -> SurgeryRefusedError:
    return SurgeryRefusedError(
        f"{backup.operation} cannot be undone any more: the checkpoint has been used since "
        f"({what}). What was there before is kept in {backup.path}."
    )


def _begin(root: Path, plan: Plan) -> Backup:
    directory = root / OWN_DIRECTORY / "backups"
    directory.mkdir(parents=True, exist_ok=True)
    taken = [int(p.name) for p in directory.iterdir() if p.name.isdigit()]
    path = directory / f"{max(taken, default=0) + 1:04d}"
    (path / "files").mkdir(parents=True)
    changes = []
    for change in plan.changes:
        described: dict[str, Any] = {"change": change.kind.value, "path": change.path}
        if change.target is not None:
            described["to"] = change.target
        if change.content is not None:
            described["digest"] = _digest(change.content)
        changes.append(described)
    backup = Backup(
        path, plan.operation, int(time.time() * 1000), False, (None, None), tuple(changes)
    )
    _write(backup)
    return backup


def _make(root: Path, change: Change, kept: Path) -> None:
    path = root / change.path
    if change.kind is Kind.CREATE:
        if not LocalFiles(root).create_if_absent(change.path, change.content or b""):
            raise SurgeryRefusedError(f"{path} has appeared meanwhile. Nothing was changed.")
    elif change.kind is Kind.REPLACE:
        _keep_copy(path, kept)
        _write_over(path, change.content or b"")
    elif change.kind is Kind.DELETE:
        _move(path, kept)
    else:
        _move(path, root / str(change.target))


def _unmake(root: Path, change: dict[str, Any], kept: Path) -> None:
    path = root / change["path"]
    kind = Kind(change["change"])
    if kind is Kind.CREATE:
        if path.exists() and _digest(path.read_bytes()) == change["digest"]:
            path.unlink()
    elif kind is Kind.REPLACE:
        if kept.exists():
            os.replace(kept, path)
    elif kind is Kind.DELETE:
        if kept.exists():
            _move(kept, path)
    elif (root / change["to"]).exists() and not path.exists():
        _move(root / change["to"], path)


def _write_over(path: Path, content: bytes) -> None:
    """Put a file in the place of another, or of none, at once."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _keep_copy(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except OSError as exc:
        if exc.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
            raise
        _write_over(kept, path.read_bytes())


def _move(path: Path, target: Path) -> None:
    """Move a file or directory to a name that is free."""
    if target.exists():
        raise FileExistsError(errno.EEXIST, "Not moved, since something is there", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, target)


def _kept(backup: Backup, number: int) -> Path:
    return backup.path / "files" / str(number)


def _write(backup: Backup) -> None:
    document = {
        "operation": backup.operation,
        "madeAtMs": backup.made_at_ms,
        "isDone": backup.is_done,
        "newest": list(backup.newest),
        "changes": list(backup.changes),
    }
    _write_over(backup.path / _MANIFEST, json.dumps(document, indent=1).encode())


def _read(path: Path) -> Backup:
    fields = json.loads((path / _MANIFEST).read_text())
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


def _sync_all(root: Path, backup: Backup) -> None:
    """Make the names in every directory that the changes touched durable."""
    touched = {
        (root / change[key]).parent
        for change in backup.changes
        for key in change.keys() & {"path", "to"}
    }
    for directory in {*touched, backup.path / "files"}:
        if directory.is_dir():
            _sync(directory)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
