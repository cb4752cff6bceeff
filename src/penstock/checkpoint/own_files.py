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
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint.paths import CheckpointPath

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
    """The manifests of all backups below a checkpoint, oldest first."""
    found: list[CheckpointPath] = [
        path for path in (root / BACKUPS).glob(f"*/{MANIFEST}") if path.parent.name.isdigit()
    ]
    return sorted(found, key=lambda path: int(path.parent.name))


def interrupted_command(root: CheckpointPath) -> InterruptedCommand | None:
    """The oldest command on a checkpoint that was started and not finished; None if all finished.

    The checkpoint is then partly changed: no query may run on it before `undo`.
    """
    for manifest in manifests_of(root):
        fields = json.loads(manifest.read_text())
        if not fields["isDone"]:
            return InterruptedCommand(manifest.parent, fields["operation"])
    return None
