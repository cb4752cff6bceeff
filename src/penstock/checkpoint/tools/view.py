"""Reads a local checkpoint for the commands, also a damaged one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from penstock.checkpoint.commit_log import CommitMetadata
from penstock.checkpoint.directory import CheckpointDirectory
from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.offset_seq import OffsetSeq
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.checkpoint.tools.state_files import StateFiles
from penstock.errors import CheckpointError, MissingBatchError

T = TypeVar("T")

_PARTS = ("metadata", "offsets", "commits", "state", "sources")


@dataclass(frozen=True)
class LogContent(Generic[T]):
    """The readable entries of a log, and the errors of the others."""

    entries: dict[int, T]
    failures: dict[int, str]

    @property
    def ids(self) -> list[int]:
        """The ids of all batches with a file, readable or not, ascending."""
        return sorted({*self.entries, *self.failures})

    @property
    def newest(self) -> int | None:
        return max(self.ids, default=None)


class CheckpointView:
    """The checkpoint in a local directory. Every file is read at most once."""

    def __init__(self, location: str | Path) -> None:
        """Raises CheckpointError if `location` is not a directory with parts of a checkpoint."""
        self.root = local_path(location)
        if not self.root.is_dir():
            raise CheckpointError(f"There is no directory {self.root}.")
        if not any((self.root / part).exists() for part in _PARTS):
            raise CheckpointError(
                f"{self.root} is not a checkpoint: it has none of {', '.join(_PARTS)}."
            )
        self.directory = CheckpointDirectory(LocalFiles(self.root))

    @cached_property
    def offsets(self) -> LogContent[OffsetSeq]:
        return _read_log(self.directory.offset_log)

    @cached_property
    def commits(self) -> LogContent[CommitMetadata]:
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

    def relative(self, path: Path) -> str:
        """A path relative to the checkpoint, for reports; absolute if it is outside."""
        return (
            path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
        )


def local_path(location: str | Path) -> Path:
    """The directory of a path or `file:` URI. Raises CheckpointError for other file systems."""
    text = str(location)
    if text.startswith("file:"):
        text = "/" + text[len("file:") :].lstrip("/")
    elif "://" in text:
        raise CheckpointError(
            f"{text} is not a local path. These commands use no JVM, so they read local "
            "directories only: copy the checkpoint to this machine, and back after a change."
        )
    return Path(text).absolute()


def _read_log(log: MetadataLog[T]) -> LogContent[T]:
    entries: dict[int, T] = {}
    failures: dict[int, str] = {}
    for batch_id in log.list_batches():
        try:
            entry = log.get(batch_id)
        except (CheckpointError, OSError) as exc:
            failures[batch_id] = str(exc).partition("\n")[0]
            continue
        if entry is not None:
            entries[batch_id] = entry
    return LogContent(entries, failures)


def _entry(log: LogContent[T], batch_id: int, path: str) -> T:
    if batch_id in log.entries:
        return log.entries[batch_id]
    if batch_id in log.failures:
        raise CheckpointError(log.failures[batch_id])
    raise MissingBatchError(f"batch {batch_id} doesn't exist: there is no {path}.")
