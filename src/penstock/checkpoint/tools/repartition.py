"""Plans a change of the number of state partitions, which Spark makes on a copy.

1. `check` refuses what Spark cannot repartition, and what it would repartition wrongly.
2. `draft` makes a copy of the checkpoint in `.penstock/repartition`: the newest log entries, and
   links to the files of the state.
3. Spark adds a batch to the copy: an entry with the new number of partitions and the offsets of the
   batch before, a new version of the state, and the commit.
4. `plan_of` is the plan to create the new files in the checkpoint: the offset log entry first, the
   commit last. If it is interrupted in between, both engines refuse to start.

Until step 4 the checkpoint does not change, whatever happens to the process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.commit_log import CommitMetadata, StateUniqueIds
from penstock.checkpoint.local_files import is_twin
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.own_files import REPARTITION
from penstock.checkpoint.paths import files_below
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.stream_metadata import FILE_NAME
from penstock.checkpoint.tools import moves
from penstock.checkpoint.tools.backup import refuse_interrupted
from penstock.checkpoint.tools.changes import Change, Kind, Plan, create_file, delete_files
from penstock.checkpoint.tools.targets import (
    PARTITIONS,
    listed,
    recorded_partitions,
    require_target,
)
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_HDFS_BACKED = "HDFSBackedStateStoreProvider"

OTHERWISE = (
    "To change the number all the same, start the query with a new checkpoint, which reads its "
    "input from the beginning."
)


@dataclass(frozen=True)
class Repartition:
    """A change of the number of state partitions. It adds a batch without input."""

    view: CheckpointView
    to: int
    batch: int
    """The id of the new batch."""
    before: int
    """The present number of partitions."""

    @property
    def operation(self) -> str:
        return f"repartition --to {self.to}"

    @property
    def last_commit(self) -> CommitMetadata:
        return self.view.commit(self.batch - 1)

    @property
    def state_format(self) -> int:
        """The format of the state files: 2 if they have ids, which the commit log lists."""
        commit = self.last_commit
        return 2 if commit.version == 2 or commit.state_unique_ids else 1

    def expected_plan(self) -> Plan:
        """The plan without the files of the state, whose names only Spark can tell."""
        if self.to == self.before:
            return self._plan([])
        entry = self.view.directory.offset_log.serialize(self._entry())
        ids = " and the ids of its files in the commit" if self.state_format == 2 else ""
        note = (
            f"Spark also writes version {self.batch + 1} of the state of "
            f"{_operators(self.view)}, with {self.to} partitions{ids}. This takes a pass over "
            "the state, and space for a second copy of it."
        )
        changes = [*self._create("offsets", entry), *self._create_commit(None)]
        return self._plan(changes, (note,))

    def _plan(self, changes: Sequence[Change], warnings: tuple[str, ...] = ()) -> Plan:
        return Plan(
            self.operation,
            f"The next run continues after batch {self.batch}, which has no input, with "
            f"{self.to} state partitions instead of {self.before}.",
            tuple(changes),
            warnings,
        )

    def _create(self, log: str, content: bytes) -> list[Change]:
        return create_file(self.view.root, f"{log}/{self.batch}", content)

    def _create_commit(self, ids: StateUniqueIds | None) -> list[Change]:
        commit = replace(self.last_commit, state_unique_ids=ids)
        return self._create("commits", self.view.directory.commit_log.serialize(commit))

    def _entry(self) -> OffsetSeq:
        entry = self.view.entry(self.batch - 1)
        assert entry.metadata is not None  # `check` has read its number of partitions
        conf = {**entry.metadata.conf, PARTITIONS: str(self.to)}
        return replace(entry, metadata=replace(entry.metadata, conf=conf))

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A copy of the checkpoint for Spark to work on, removed at the end.

        The files of the state are links: Spark writes new files and replaces names, it does not
        write into an existing file. Call it while the lock is held.
        """
        root = Path(str(self.view.root))
        draft = root / REPARTITION
        shutil.rmtree(draft, ignore_errors=True)
        last = self.batch - 1
        beyond = {self.view.relative(path) for path in self.view.state.paths_beyond(self.batch)}
        try:
            for name in (FILE_NAME, f"offsets/{last}", f"offsets/{last - 1}"):
                if (root / name).exists():
                    _link(root / name, draft / name)
            # Spark checks that the format of the state is the version of this entry, also if the
            # version is that of an entry with sinks.
            commit = replace(self.last_commit, sinks=None, version=self.state_format)
            _write(draft / f"commits/{last}", self.view.directory.commit_log.serialize(commit))
            for name in _names(root, twins=True) - beyond:
                _link(root / name, draft / name)
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def plan_of(self, draft: Path) -> Plan:
        """The plan to create in the checkpoint what Spark has added to the draft.

        Raises SurgeryRefusedError if the new batch or a part of its state is missing there.
        """
        made = CheckpointView(draft)
        ids = made.commit(self.batch).state_unique_ids
        missing = made.state.missing(self.batch + 1, self.to, ids)
        if recorded_partitions(made.entry(self.batch)) != self.to or missing:
            raise SurgeryRefusedError(
                f"Spark has not written all of the state ({listed(missing)}). Nothing was changed."
            )
        root = Path(str(self.view.root))
        beyond = self.view.state.paths_beyond(self.batch)
        kept = _names(root) - {self.view.relative(path) for path in beyond}
        return self._plan(
            [
                *delete_files(root, beyond),
                *self._create("offsets", (draft / f"offsets/{self.batch}").read_bytes()),
                *(
                    Change(Kind.CREATE, name, origin=draft / name)
                    for name in sorted(_names(draft) - kept)
                ),
                *self._create_commit(ids),
            ]
        )


def check(view: CheckpointView, to: int) -> Repartition:
    """Check that the number of state partitions can be changed, as far as the files tell.

    Raises SurgeryRefusedError with the reason and the remedy.
    """
    if isinstance(view.root, StorePath):
        raise SurgeryRefusedError(
            f"{view.root} is in an object store. Spark repartitions a copy on this machine: copy "
            "the whole directory here with the tools of the store, repartition the copy, and copy "
            "it back. `fork` is not the way, since it gives the copy a new query id."
        )
    refuse_interrupted(view.root)
    newest = view.newest_batch
    if newest is None or view.state.is_empty:
        raise SurgeryRefusedError(
            "There is no state to repartition. The number of partitions of a query without state "
            f"is {PARTITIONS} of its session."
        )
    before = recorded_partitions(view.entry(newest))
    if before is None:
        raise SurgeryRefusedError(
            f"offsets/{newest} does not have the number of partitions. {OTHERWISE}"
        )
    if view.is_planned:
        raise SurgeryRefusedError(_planned(view, newest))
    require_target(view, newest)
    _refuse_state(view, newest)
    return Repartition(view, to, newest + 1, before)


def _planned(view: CheckpointView, newest: int) -> str:
    earlier = view.offsets.entries.get(newest - 1)
    before = recorded_partitions(earlier) if earlier else None
    now = recorded_partitions(view.entry(newest))
    if before is not None and before != now:
        return (
            f"Batch {newest} is an unfinished repartitioning to {now} partitions that Spark has "
            f"begun. Remove it first: {checkpoint_command('replan', view.root, '--yes')}"
        )
    return (
        f"Batch {newest} is planned and not committed. Let the query finish it, with "
        "trigger(availableNow=True) for example, or remove it: "
        + checkpoint_command("replan", view.root, "--yes")
    )


def _refuse_state(view: CheckpointView, newest: int) -> None:
    """Refuse state that Spark cannot repartition, or that it repartitions wrongly."""
    metadata = view.entry(newest).metadata
    provider = metadata.conf.get(_PROVIDER, "") if metadata else ""
    operators = view.state.operators
    if provider.endswith(_HDFS_BACKED) or any(o.provider == "HDFS-backed" for o in operators):
        raise SurgeryRefusedError(
            "The state is in files of the HDFS-backed provider, and Spark repartitions only state "
            f"of RocksDB. {OTHERWISE} With {_PROVIDER} set to that of RocksDB it can be "
            "repartitioned later."
        )
    keyless = [o for o in operators if o.is_keyless]
    if keyless:
        names = ", ".join(f"{o.id} ({o.name or '?'})" for o in keyless)
        raise SurgeryRefusedError(
            f"The state of operator {names} has no key, as with groupBy().count() or limit(). It "
            "is in one partition, whatever their number, and would be lost: Spark moves it to a "
            f"partition that the query does not read. {OTHERWISE}"
        )


def _operators(view: CheckpointView) -> str:
    names = [f"operator {o.id} ({o.name or '?'})" for o in view.state.operators]
    return ", ".join(names)


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), target)
    except OSError:
        shutil.copy2(path, target)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    moves.write_over(path, content)


def _names(root: Path, *, twins: bool = False) -> set[str]:
    """The paths of the state files below a checkpoint, without temporary files.

    The checksum files of Hadoop are left out if not wanted: new files do not need them.
    """
    return {
        Path(str(path)).relative_to(root).as_posix()
        for path in files_below(root / "state")
        if not path.name.endswith(".tmp") and (twins or not is_twin(path.name))
    }
