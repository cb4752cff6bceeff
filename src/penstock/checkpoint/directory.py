"""A checkpoint: its query id, its two logs, and the paths of its other parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from penstock.checkpoint.commit_log import CommitLog
from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.known_files import KnownFiles
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.offset_seq import OffsetSeqLog
from penstock.checkpoint.quarantine_log import FailureLog, QuarantineLog
from penstock.checkpoint.sink_entries import SinkEntryLog, SinkNamesLog
from penstock.checkpoint.stream_metadata import FILE_NAME, StreamMetadata
from penstock.checkpoint.versions import LogVersions
from penstock.errors import CheckpointNotEmptyError, Condition, MissingMetadataError


class CheckpointDirectory:
    """The checkpoint below a root: `metadata`, `offsets/`, `commits/`, `sources/`, `state/`."""

    def __init__(
        self,
        files: CheckpointFiles,
        versions: LogVersions | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is a clock in seconds, for how long a check of an object store is valid."""
        self.files = files
        self._known = KnownFiles(files, now)
        self._purged_before = 0
        self.offset_log = OffsetSeqLog(files, known=self._known, versions=versions)
        self.commit_log = CommitLog(files, known=self._known, versions=versions)
        self.sink_names = SinkNamesLog(files, known=self._known)
        self.failures = FailureLog(files, known=self._known)
        self.quarantine = QuarantineLog(files, known=self._known)

    def sink_log(self, name: str) -> SinkEntryLog:
        """The entries of one of many sinks."""
        return SinkEntryLog(self.files, name, self._known)

    @property
    def root(self) -> str:
        return self.files.root

    @property
    def state_path(self) -> str:
        return self.files.path("state")

    def read_or_create_metadata(self, *, verify: bool = True) -> StreamMetadata:
        """The query id; written to a new `metadata` file if there is none. Call it once per run.

        Creates the directories of the two logs, which the run does not create again later. The
        `metadata` file must not change during the run; see `require_unchanged`.

        Raises MissingMetadataError, if `verify`, for log entries without a `metadata` file: with a
        new id, a sink that detects repeated batches by query id would write old batches again.
        """
        metadata = StreamMetadata.read(self.files)
        if metadata is None:
            if verify and (self.offset_log.list_batches() or self.commit_log.list_batches()):
                raise MissingMetadataError(
                    f"Checkpoint location {self.root} is in an inconsistent state: the metadata "
                    "file is missing but offset and/or commit logs contain data. Please restore "
                    "the metadata file or create a new checkpoint directory.",
                    Condition(
                        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
                        "42K03",
                        {"checkpointLocation": self.root},
                    ),
                )
            metadata = StreamMetadata.new()
            metadata.write(self.files)
        self.offset_log.make_directory()
        self.commit_log.make_directory()
        self._known.remember(FILE_NAME, 0, FILE_NAME, self.files.read(FILE_NAME))
        return metadata

    def require_unchanged(self) -> None:
        """Raise CheckpointVanishedError if a file that this run uses was deleted or replaced."""
        self._known.require()

    def purge(
        self,
        before: int,
        between: Callable[[], None] = lambda: None,
        others: Iterable[MetadataLog[Any]] = (),
    ) -> None:
        """Remove the log entries of all batches below `before`, in the logs `others` too.

        Calls `between` after the offset log.

        On an object store nothing is removed until there are the entries of some batches, and
        then on another thread: no batch waits for it.
        """
        if before - self._purged_before < self.files.purged_at_once:
            return
        self._purged_before = before

        def purge() -> None:
            self.offset_log.purge(before)
            between()
            self.commit_log.purge(before)
            for log in others:
                log.purge(before)

        self.files.run_aside(purge)

    def release(self) -> None:
        """Close the directories that this run holds open, so that the disk can be unmounted."""
        self._known.release()

    def verify_new(self) -> None:
        """Raise CheckpointNotEmptyError if there are log entries or state. For a new query."""
        found = {
            "offsets": bool(self.offset_log.list_batches()),
            "commits": bool(self.commit_log.list_batches()),
            "state": not self.files.is_empty("state"),
        }
        for name, has_entries in found.items():
            if has_entries:
                location = self.files.path(name)
                raise CheckpointNotEmptyError(
                    f"The checkpoint location {location} should be empty on batch 0\n"
                    "Please either use a new checkpoint location, or delete the existing data in "
                    "the checkpoint location.",
                    Condition(
                        "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
                        "42K03",
                        {"checkpointLocation": location},
                    ),
                )
