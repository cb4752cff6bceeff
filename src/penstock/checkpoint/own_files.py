"""The files that Penstock adds to a checkpoint, all below `.penstock/`.

    .penstock/lock                          the advisory lock of a local checkpoint: see `lock`
    .penstock/running, changing, changed    that of one in an object store: see `store_lock`
    .penstock/backups/0001/manifest.json    the changes of one `penstock checkpoint` command and
                                            whether it has finished: see `tools.backup`
    .penstock/sinks/lake/7                  the sink `lake` has finished batch 7: see `sink_entries`
    .penstock/sink-names/0                  the names of the sinks: see `sink_entries`
    .penstock/failures/0                    a failure of a batch: see `quarantine_log`
    .penstock/quarantine/7                  what batch 7 leaves out: see `quarantine_log`
    .penstock/trial/state                   a copy of the state, while a batch is narrowed
    .penstock/repartition                   a copy of the checkpoint, on which Spark changes the
                                            number of state partitions: see `tools.repartition`

Spark does not read this directory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.checkpoint.commands import undo_of
from penstock.errors import CheckpointError, CheckpointInUseError, MalformedLogError

if TYPE_CHECKING:
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.paths import CheckpointPath

T = TypeVar("T")

OWN_DIRECTORY = ".penstock"
"""The directory below a checkpoint's root that holds Penstock's own files."""

BACKUPS = f"{OWN_DIRECTORY}/backups"
"""The directory of backups, relative to the checkpoint's root. Each backup has a number as name."""

REPARTITION = f"{OWN_DIRECTORY}/repartition"
"""The directory of a repartitioning that has not finished. The checkpoint itself is unchanged."""

MANIFEST = "manifest.json"
"""The file name of a backup's manifest."""


@dataclass(frozen=True)
class InterruptedCommand:
    """A `penstock checkpoint` command whose process ended before the command did."""

    backup: CheckpointPath
    """The directory of its backup."""
    operation: str
    """The name of the subcommand, such as `rewind`."""


def manifests_of(root: CheckpointPath) -> list[CheckpointPath]:
    """The manifests of all backups below a checkpoint, oldest first.

    Raises CheckpointError if it cannot be found out whether there are any.
    """
    found: list[CheckpointPath] = []
    try:
        for backup in (root / BACKUPS).iterdir():
            manifest = backup / MANIFEST
            if backup.name.isdecimal() and _is_there(manifest):
                found.append(manifest)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as exc:
        raise CheckpointError(
            f"{exc.filename} cannot be read, so it is not known whether a `penstock checkpoint` "
            f"command was interrupted. Give this user access to {root / OWN_DIRECTORY}, which "
            f"another user has created. {exc}"
        ) from exc
    return sorted(found, key=lambda path: int(path.parent.name))


def _is_there(path: CheckpointPath) -> bool:
    """Unlike `is_file` of some versions of Python, raises PermissionError if that is not known."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def interrupted_command(root: CheckpointPath) -> InterruptedCommand | None:
    """The oldest command on a checkpoint that was started and not finished; None if all finished.

    The checkpoint is then partly changed: no query may run on it before `undo`. Raises
    MalformedLogError if a manifest cannot be read: the checkpoint may be partly changed.
    """
    for manifest in manifests_of(root):
        is_done, operation = read_manifest(manifest, _end_and_operation)
        if not is_done:
            return InterruptedCommand(manifest.parent, operation)
    return None


def interrupted_in(files: CheckpointFiles) -> str | None:
    """The operation of the command that `interrupted_command` finds, through the files of a query.

    Makes one listing, and reads each manifest.
    """
    backups = [name for name in files.list_directories(BACKUPS) if name.isdecimal()]
    for backup in sorted(backups, key=int):
        name = f"{BACKUPS}/{backup}/{MANIFEST}"
        try:
            data = files.read(name)
        except FileNotFoundError:
            continue
        is_done, operation = _parsed(data, files.path(name), files.root, _end_and_operation)
        if not is_done:
            return operation
    return None


def partly_changed(root: object, operation: str) -> CheckpointInUseError:
    """The error of a query that finds an interrupted command."""
    return CheckpointInUseError(
        f"{root} is partly changed: `penstock checkpoint {operation}` was interrupted. Undo it "
        f"first: {undo_of(root)} (if Spark has run on it since, this is refused: add --keep to "
        "accept the checkpoint as it is)"
    )


def read_manifest(path: CheckpointPath, take: Callable[[dict[str, Any]], T]) -> T:
    """What `take` finds in a manifest. Raises MalformedLogError if it is not a whole manifest."""
    return _parsed(path.read_bytes(), path, path.parent.parent.parent.parent, take)


def _end_and_operation(fields: dict[str, Any]) -> tuple[bool, str]:
    return fields["isDone"], fields["operation"]


def _parsed(data: bytes, path: object, root: object, take: Callable[[dict[str, Any]], T]) -> T:
    try:
        return take(json.loads(data))
    except (ValueError, LookupError, TypeError) as exc:
        raise MalformedLogError(
            f"{path} cannot be read ({type(exc).__name__}: {exc}), so the checkpoint may be partly "
            "changed by a `penstock checkpoint` command. Restore the file from another copy of the "
            "checkpoint, or accept the checkpoint as it is: " + undo_of(root, keep=True)
        ) from exc
