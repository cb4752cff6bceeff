"""The changes that a command plans to make to the files of a checkpoint, in order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.checkpoint.local_files import twin_of
from penstock.checkpoint.paths import CheckpointPath, is_below
from penstock.checkpoint.store_path import StorePath

_SMALL = 64 * 1024


class Kind(str, Enum):
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True)
class Change:
    """One change. Paths are relative to the checkpoint, or absolute for files outside of it.

    CREATE and REPLACE have `content`, MOVE has `target`. DELETE and MOVE work on directories too.
    A CREATE has instead of content an `origin` if the file, which may be large, exists elsewhere on
    this machine; the origin stays where it is.
    """

    kind: Kind
    path: str
    content: bytes | None = None
    target: str | None = None
    origin: Path | None = None

    def __post_init__(self) -> None:
        fields = ("content", "target", "origin")
        given = {field for field in fields if getattr(self, field) is not None}
        allowed: dict[Kind, tuple[set[str], ...]] = {
            Kind.CREATE: ({"content"}, {"origin"}),
            Kind.REPLACE: ({"content"},),
            Kind.DELETE: (set(),),
            Kind.MOVE: ({"target"},),
        }
        if given not in allowed[self.kind]:
            raise ValueError(f"not a change: {self}")

    def diff(self, root: CheckpointPath) -> list[str]:
        """The change of a small text file as lines of a unified diff, without its header."""
        if self.kind is Kind.MOVE:
            return []
        before = _text(root / self.path) if self.kind is not Kind.CREATE else ""
        if self.origin is not None:
            after = _text(self.origin)
        else:
            after = (self.content or b"").decode(errors="replace")
        if before is None or after is None:
            return []
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        return [line for line in list(lines)[2:] if not line.startswith("@@")]

    def to_dict(self, root: CheckpointPath) -> dict[str, Any]:
        described: dict[str, Any] = {"change": self.kind.value, "path": self.path}
        if self.target is not None:
            described["to"] = self.target
        return described | {"diff": self.diff(root)}


@dataclass(frozen=True)
class Plan:
    """The changes of a command, with warnings for the user.

    The changes are made in order. `outcome` describes what the next run will do.
    """

    operation: str
    outcome: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self, root: CheckpointPath) -> dict[str, Any]:
        if isinstance(root, StorePath):
            root.tree.read_ahead(change.path for change in self.changes if not change.target)
        return {
            "operation": self.operation,
            "outcome": self.outcome,
            "changes": [change.to_dict(root) for change in self.changes],
            "warnings": list(self.warnings),
        }


def delete_files(root: CheckpointPath, paths: Sequence[CheckpointPath]) -> list[Change]:
    """Delete files, each with its checksum file, in the given order."""
    wanted = list(dict.fromkeys(p for path in paths for p in (path, twin_of(path)) if p.exists()))
    return [Change(Kind.DELETE, _name(root, path)) for path in wanted]


def replace_file(root: CheckpointPath, name: str, content: bytes) -> list[Change]:
    """Replace a file. Its checksum file is deleted first: Hadoop rejects a stale one."""
    twin = twin_of(root / name)
    gone = [Change(Kind.DELETE, _name(root, twin))] if twin.exists() else []
    return [*gone, Change(Kind.REPLACE, name, content)]


def create_file(root: CheckpointPath, name: str, content: bytes) -> list[Change]:
    """Create a file. A leftover checksum file of that name is deleted first."""
    twin = twin_of(root / name)
    gone = [Change(Kind.DELETE, _name(root, twin))] if twin.exists() else []
    return [*gone, Change(Kind.CREATE, name, content)]


def _name(root: CheckpointPath, path: CheckpointPath) -> str:
    return path.relative_to(root).as_posix() if is_below(path, root) else str(path)


def _text(path: CheckpointPath) -> str | None:
    """The text of a small text file; None for anything else."""
    try:
        if not path.is_file() or path.stat().st_size > _SMALL:
            return None
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None
