"""The batches that a checkpoint can be rewound to, and why it cannot for the others."""

from __future__ import annotations

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.timestamps import format_timestamp
from penstock.checkpoint.tools.backup import Backup, backups_of
from penstock.checkpoint.tools.offset_text import ranges
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MalformedLogError, SurgeryRefusedError

PARTITIONS = "spark.sql.shuffle.partitions"
"""The recorded setting that is the number of state partitions."""

_CHANGES_OF_SOURCES = ("add-source", "remove-source", "reorder-sources")


class Targets:
    """The batches of a checkpoint as targets of a rewind."""

    def __init__(self, view: CheckpointView) -> None:
        self._view = view
        self._change = _last_change_of_sources(view)
        self._now = _sources_now(view)

    @property
    def oldest_entry(self) -> int:
        """The oldest entry of the offset log with the current sources.

        A command that changes the sources rewrites the newest two entries only.
        """
        newest = self._change.newest[0] if self._change else None
        return max((newest or 0) - 1, 0)

    def possible(self) -> list[int]:
        """The batches after which the checkpoint can be continued, ascending."""
        return [b for b in sorted(self._view.commits.entries) if self.obstacle(b) is None]

    def obstacle(self, batch: int) -> str | None:
        """Why the checkpoint cannot be continued after a batch; None if it can be."""
        return (
            self.missing_entries(batch) or self._other_sources(batch) or self._missing_state(batch)
        )

    def missing_entries(self, batch: int) -> str | None:
        """The message if an entry that a restart after a batch reads is missing or unreadable."""
        try:
            self._view.commit(batch)
            for read in _read_after(batch):
                self._view.entry(read)
        except CheckpointError as exc:
            entries = " and ".join(f"offsets/{read}" for read in _read_after(batch))
            return f"a restart needs commits/{batch}, {entries}. {exc}"
        return None

    def _other_sources(self, batch: int) -> str | None:
        """The message if an entry that a restart reads belongs to other sources than the current.

        The own files of the earlier sources were moved or deleted by the change.
        """
        oldest = min(_read_after(batch))
        if self._change is not None and oldest < self.oldest_entry:
            return (
                f"`{self._change.operation}` changed the sources at batch "
                f"{self._change.newest[0]}, and offsets/{oldest} is older. If no batch has run "
                f"since, undo the change: {checkpoint_command('undo', self._view.root)}"
            )
        for read in _read_after(batch):
            entry = self._view.entry(read)
            if self._now is not None and not _is_of_sources(entry, self._now):
                return (
                    f"offsets/{read} has the sources {', '.join(entry.source_names)}; the query "
                    f"now has {', '.join(self._now.source_names)}."
                )
        return None

    def _missing_state(self, batch: int) -> str | None:
        version = batch + 1
        partitions = recorded_partitions(self._view.entry(batch))
        ids = self._view.commit(batch).state_unique_ids
        missing = self._view.state.missing(version, partitions, ids)
        if not missing:
            return None
        return f"version {version} of the state is no longer retained ({listed(missing)})."


def possible_targets(view: CheckpointView) -> list[int]:
    """The batches after which the checkpoint can be continued, ascending.

    Empty if the manifest of a backup cannot be read: the checkpoint may be partly changed.
    """
    try:
        targets = Targets(view)
    except MalformedLogError:
        return []
    return targets.possible()


def require_target(view: CheckpointView, batch: int) -> None:
    """Raise SurgeryRefusedError, with the reason, if a rewind to a batch is not possible."""
    targets = Targets(view)
    _refuse(targets, batch, targets.obstacle(batch))


def require_entries(view: CheckpointView, batch: int) -> None:
    """Raise SurgeryRefusedError if an entry that a restart after a batch reads is missing."""
    targets = Targets(view)
    _refuse(targets, batch, targets.missing_entries(batch))


def last_before(view: CheckpointView, time_ms: int) -> int:
    """The last batch that was planned before a time, which the checkpoint is to be rewound to.

    It is the batch before the first one that was planned at or after the time, so that no batch
    planned at or after it remains, even if the clock was set back in between. Raises
    SurgeryRefusedError if that batch is not in the log any more, or cannot be rewound to.
    """
    planned = {batch: _planned_at(view, batch) for batch in view.offsets.ids}
    later = [batch for batch, at in planned.items() if at >= time_ms]
    if not later and view.is_planned:
        raise SurgeryRefusedError(
            f"There is nothing to rewind: no batch was planned at or after "
            f"{format_timestamp(time_ms)}. Batch {view.newest_batch}, which is planned and not "
            "committed, runs first on restart."
        )
    target = (later[0] if later else view.next_batch) - 1
    possible = Targets(view).possible()
    if target in possible:
        return target
    if not possible:
        raise SurgeryRefusedError("The checkpoint cannot be rewound to any batch.")
    if target < possible[0]:
        oldest = possible[0]
        raise SurgeryRefusedError(
            f"The checkpoint cannot be rewound to before {format_timestamp(time_ms)}: the oldest "
            f"batch that it can be rewound to is {oldest}, planned at "
            f"{format_timestamp(planned[oldest])}. The oldest possible time is "
            f"{format_timestamp(planned[oldest] + 1)}."
        )
    require_target(view, target)
    return target


def _planned_at(view: CheckpointView, batch: int) -> int:
    metadata = view.entry(batch).metadata
    if metadata is None or not metadata.batch_timestamp_ms:
        raise SurgeryRefusedError(
            f"offsets/{batch} has no time. Use --to with the id of a batch instead."
        )
    return metadata.batch_timestamp_ms


def recorded_partitions(entry: OffsetSeq) -> int | None:
    """The number of state partitions recorded in an entry; None if it is not recorded."""
    conf = entry.metadata.conf if entry.metadata else {}
    text = conf.get(PARTITIONS, "")
    return int(text) if text.isdecimal() else None


def listed(paths: list[str]) -> str:
    """The first three paths and the number of the others, for a message."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _refuse(targets: Targets, batch: int, why: str | None) -> None:
    if why is None:
        return
    possible = targets.possible()
    instead = f"Possible batches: {ranges(possible)}." if possible else "No batch is possible."
    raise SurgeryRefusedError(
        f"The checkpoint cannot be continued after batch {batch}: {why} {instead}"
    )


def _read_after(batch: int) -> tuple[int, ...]:
    """The entries of the offset log that a restart after a batch reads."""
    return (batch, batch - 1) if batch > 0 else (batch,)


def _last_change_of_sources(view: CheckpointView) -> Backup | None:
    """The last command that changed the sources and was not undone."""
    changes = [
        backup
        for backup in backups_of(view.root)
        if backup.is_done and backup.operation.partition(" ")[0] in _CHANGES_OF_SOURCES
    ]
    return max(changes, key=lambda backup: backup.newest[0] or 0, default=None)


def _sources_now(view: CheckpointView) -> OffsetSeq | None:
    """The newest entry whose sources match those of the entry before it."""
    entries = view.offsets.entries
    for batch in sorted(entries, reverse=True):
        before = entries.get(batch - 1)
        if before is None or _is_of_sources(before, entries[batch]):
            return entries[batch]
    return None


def _is_of_sources(entry: OffsetSeq, now: OffsetSeq) -> bool:
    """Whether a query with the sources of `now` can read `entry`.

    Without names the number of sources must be the same. With names it need not: sources without an
    offset are not in an entry, and names that the query does not have are ignored.
    """
    if entry.source_ids is None and now.source_ids is None:
        return len(entry.offsets) == len(now.offsets)
    numbers = {name for name in entry.source_names if file_number(name) is not None}
    return numbers <= set(now.source_names)
