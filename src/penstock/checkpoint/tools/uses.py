"""Finds out whether something else has written to a checkpoint since a command changed it.

Spark's engine does not notice that a command was interrupted. A query that has run on a partly
changed checkpoint has log entries above those that were there, or has written files again that the
command has deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.tools import moves
from penstock.checkpoint.tools.changes import Kind
from penstock.checkpoint.tools.view import CheckpointView

if TYPE_CHECKING:
    from penstock.checkpoint.tools.backup import Backup

NOT_RECORDED = (None, None)
"""The newest batches in an unfinished manifest of an earlier version."""


def newest_of(root: CheckpointPath) -> tuple[int | None, int | None]:
    """The newest batch in the offset log and in the commit log."""
    offsets, commits = _batches(root)
    return max(offsets, default=None), max(commits, default=None)


def uses_since(root: CheckpointPath, backup: Backup) -> Iterator[str]:
    """Descriptions of what something else has written after the command, or since it began."""
    if backup.is_done:
        now = newest_of(root)
        if now != backup.newest:
            yield f"the newest batch was {backup.newest[0]}, now {now[0]}"
    else:
        yield from _entries_since(root, backup)
    for number, change in enumerate(backup.changes):
        kept, path = backup.kept(number), root / change["path"]
        kind = Kind(change["change"])
        if not moves.exists(path) or (kind is not Kind.CREATE and not moves.exists(kept)):
            continue
        if kind is Kind.DELETE:
            if not _is_filled(backup, number) and (backup.is_done or not moves.agree(kept, path)):
                yield f"{path} has been written again"
        elif backup.is_done and "digest" in change and digest_of(path) != change["digest"]:
            yield f"{path} has been changed"


def _entries_since(root: CheckpointPath, backup: Backup) -> Iterator[str]:
    """The log entries above those that were there when an unfinished command, or its undo, began.

    Those that the command has created, and those that an undo has restored, do not count.
    """
    if backup.newest == NOT_RECORDED:
        return
    own = {
        change["path"]
        for number, change in enumerate(backup.changes)
        if Kind(change["change"]) is not Kind.CREATE
        or is_created(root, change, backup.kept(number))
    }
    logs = zip(("offsets", "commits"), backup.newest, _batches(root), strict=True)
    for log, newest, batches in logs:
        for batch in batches:
            path = f"{log}/{batch}"
            if (newest is None or batch > newest) and path not in own:
                yield f"{root / path} has been written"


def is_created(root: CheckpointPath, change: dict[str, Any], mark: CheckpointPath) -> bool:
    """Whether the file at the path of a CREATE is the one that the command has created.

    The commit of a query has the same bytes, so they do not tell if the change has a mark.
    """
    path = root / change["path"]
    if change.get("isMarked") and not moves.exists(mark):
        return False
    return path.exists() and bool(digest_of(path) == change["digest"])


def digest(content: bytes) -> str:
    """The digest of the content of a file, as it is in a manifest."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: CheckpointPath) -> str:
    """The digest of a file."""
    if isinstance(path, StorePath):
        return digest(path.read_bytes())
    with open(str(path), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _batches(root: CheckpointPath) -> tuple[list[int], list[int]]:
    """The batches with an entry in the offset log, and in the commit log."""
    directory = CheckpointView(root).directory
    return directory.offset_log.list_batches(), directory.commit_log.list_batches()


def _is_filled(backup: Backup, number: int) -> bool:
    """Whether a later change of the same command puts something at the path of a change."""
    path = backup.changes[number]["path"]
    return any(
        later.get("to") == path or (Kind(later["change"]) is Kind.CREATE and later["path"] == path)
        for later in backup.changes[number + 1 :]
    )
