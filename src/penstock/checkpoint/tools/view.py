"""Reads a checkpoint for the commands, also a damaged one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from penstock.checkpoint.commit_log import CommitMetadata
from penstock.checkpoint.directory import CheckpointDirectory
from penstock.checkpoint.file_numbers import file_number
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.paths import CheckpointPath, files_below, is_below
from penstock.checkpoint.store_path import StorePath
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.checkpoint.tools.locations import NO_OPTIONS, files_at, location_of
from penstock.checkpoint.tools.state_files import StateFiles
from penstock.errors import CheckpointError, MissingBatchError

T = TypeVar("T")

PARTS = ("metadata", "offsets", "commits", "state", "sources")


@dataclass(frozen=True)
class LogContent(Generic[T]):
    """The readable entries of a log, and the errors of the others."""

    entries: dict[int, T]
    failures: dict[int, CheckpointError | OSError]

    @property
    def ids(self) -> list[int]:
        """The ids of all batches with a file, readable or not, ascending."""
        return sorted({*self.entries, *self.failures})

    @property
    def newest(self) -> int | None:
        return max(self.ids, default=None)

    def problem(self, batch_id: int) -> str | None:
        """The error of an entry that cannot be read, in one line; None for another entry."""
        error = self.failures.get(batch_id)
        return None if error is None else str(error).partition("\n")[0]


class CheckpointView:
    """The checkpoint in a local directory or in an object store. A file is read at most once."""

    def __init__(
        self, location: str | CheckpointPath, options: Mapping[str, str] = NO_OPTIONS
    ) -> None:
        """`options` are those of the client of an object store; see `location_of`.

        Raises CheckpointError if `location` is not a directory with parts of a checkpoint.
        """
        self.root = location_of(location, options)
        if not self.root.is_dir():
            what = "nothing below" if isinstance(self.root, StorePath) else "no directory"
            raise CheckpointError(f"There is {what} {self.root}.")
        if not any((self.root / part).exists() for part in PARTS):
            raise CheckpointError(
                f"{self.root} is not a checkpoint: it has none of {', '.join(PARTS)}."
            )
        self.directory = CheckpointDirectory(files_at(self.root))

    @cached_property
    def offsets(self) -> LogContent[OffsetSeq]:
        self._read_ahead("offsets")
        return _read_log(self.directory.offset_log)

    @cached_property
    def commits(self) -> LogContent[CommitMetadata]:
        self._read_ahead("commits")
        return _read_log(self.directory.commit_log)

    @cached_property
    def state(self) -> StateFiles:
        return StateFiles.scan(self.root / "state")

    @property
    def query_id(self) -> str | None:
        """The query id; None if the file does not exist or cannot be read."""
        try:
            metadata = StreamMetadata.read(self.directory.files)
        except CheckpointError:
            return None
        return metadata.id if metadata else None

    @property
    def newest_batch(self) -> int | None:
        """The newest planned batch; None if there is none."""
        return self.offsets.newest

    @property
    def is_planned(self) -> bool:
        """Whether the newest batch is planned and not committed, so that it runs on restart."""
        newest, committed = self.newest_batch, self.commits.newest
        return newest is not None and (committed is None or committed < newest)

    @property
    def next_batch(self) -> int:
        """The id of the batch that runs first on restart."""
        newest = self.newest_batch
        if newest is None:
            return 0
        return newest if self.is_planned else newest + 1

    def entry(self, batch_id: int) -> OffsetSeq:
        """An entry of the offset log. Raises CheckpointError if it is missing or unreadable."""
        return _entry(self.offsets, batch_id, f"{self.root}/offsets/{batch_id}")

    def commit(self, batch_id: int) -> CommitMetadata:
        """An entry of the commit log. Raises CheckpointError if it is missing or unreadable."""
        return _entry(self.commits, batch_id, f"{self.root}/commits/{batch_id}")

    def relative(self, path: CheckpointPath) -> str:
        """A path relative to the checkpoint, for reports; absolute if it is outside."""
        return path.relative_to(self.root).as_posix() if is_below(path, self.root) else str(path)

    def files(self) -> Iterator[CheckpointPath]:
        """The files in the root, and at any depth in the parts of the checkpoint.

        Other directories are not read: a checkpoint that is the root of a volume has `lost+found`.
        """
        yield from (path for path in self.root.iterdir() if path.is_file())
        for part in (self.root / name for name in PARTS):
            if part.is_dir():
                yield from files_below(part)

    def _read_ahead(self, log: str) -> None:
        """Read the entries of a log at the same time, if every read is a request."""
        if isinstance(self.root, StorePath):
            names = self.root.tree.list_names(log)
            entries = [name for name in names if file_number(name) is not None]
            self.root.tree.read_ahead(f"{log}/{name}" for name in entries)


def _read_log(log: MetadataLog[T]) -> LogContent[T]:
    entries: dict[int, T] = {}
    failures: dict[int, CheckpointError | OSError] = {}
    for batch_id in log.list_batches():
        try:
            entry = log.get(batch_id)
        except (CheckpointError, OSError) as exc:
            failures[batch_id] = exc
            continue
        if entry is not None:
            entries[batch_id] = entry
    return LogContent(entries, failures)


def _entry(log: LogContent[T], batch_id: int, path: str) -> T:
    if batch_id in log.entries:
        return log.entries[batch_id]
    problem = log.problem(batch_id)
    if problem is not None:
        raise CheckpointError(problem) from log.failures[batch_id]
    raise MissingBatchError(f"batch {batch_id} doesn't exist: there is no {path}.")
