"""The commit log: which batches are finished. An entry is written after the batch's output.

A file is two lines, with no newline at the end:

    v1
    {"nextBatchWatermarkMs":0}

Format `v2` adds the ids of the state files that belong to the batch, `v3` the sinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import integer_field, object_from_json, to_json
from penstock.checkpoint.known_files import KnownFiles
from penstock.checkpoint.metadata_log import MetadataLog
from penstock.checkpoint.offset_seq import decode_lines
from penstock.checkpoint.versions import LogVersions, parse_version
from penstock.errors import IncompleteLogError, MalformedLogError

NEWEST_VERSION = 3

_WHAT = "The metadata line of a commit log entry"

StateUniqueIds = Mapping[int, tuple[tuple[str, ...], ...]]
"""Operator id -> partition -> the ids of that partition's state files."""


@dataclass(frozen=True)
class CommitMetadata:
    """The entry of a finished batch. It has the watermark for the next batch.

    Format version 2 adds `state_unique_ids`, version 3 adds `sinks`, by name, in Spark's spelling.
    Raises ValueError if `version` cannot hold the fields that are set.
    """

    next_batch_watermark_ms: int = 0
    state_unique_ids: StateUniqueIds | None = None
    sinks: Mapping[str, Mapping[str, Any]] | None = None
    version: int = 1

    def __post_init__(self) -> None:
        needed = 3 if self.sinks is not None else 2 if self.state_unique_ids else 1
        if not needed <= self.version <= NEWEST_VERSION:
            raise ValueError(f"commit log version {self.version} cannot hold {self}")
        if self.version == 3 and not self.sinks:
            raise MalformedLogError("VERSION_3 commit log requires a non-empty sinkMetadataMap")

    @classmethod
    def from_json(cls, text: str, version: int = 1) -> CommitMetadata:
        """Parse the second line of an entry. A missing watermark is 0, as in Spark."""
        fields = object_from_json(text, _WHAT)
        watermark = integer_field(fields, "nextBatchWatermarkMs", _WHAT)
        if version == 1:
            return cls(watermark)
        ids = fields.get("stateUniqueIds")
        parsed = None if ids is None else {int(op): _as_tuples(ids[op]) for op in ids}
        return cls(watermark, parsed, fields.get("sinkMetadataMap"), version)

    @property
    def json(self) -> str:
        """The second line of an entry."""
        fields: dict[str, Any] = {"nextBatchWatermarkMs": self.next_batch_watermark_ms}
        if self.state_unique_ids is not None:
            fields["stateUniqueIds"] = {str(k): v for k, v in self.state_unique_ids.items()}
        if self.sinks is not None:
            fields["sinkMetadataMap"] = self.sinks
        return to_json(fields)


class CommitLog(MetadataLog[CommitMetadata]):
    """The log of finished batches: `commits/N` exists if batch N is finished."""

    def __init__(
        self,
        files: CheckpointFiles,
        directory: str = "commits",
        known: KnownFiles | None = None,
        versions: LogVersions | None = None,
    ) -> None:
        super().__init__(files, directory, known)
        self._versions = versions or LogVersions()

    def serialize(self, entry: CommitMetadata) -> bytes:
        return f"v{entry.version}\n{entry.json}".encode()

    def deserialize(self, data: bytes) -> CommitMetadata:
        lines = decode_lines(data)
        if not lines:
            raise IncompleteLogError("Incomplete log file in the offset commit log")
        read = self._versions
        version = parse_version(
            lines[0].strip(),
            read.newest_commits,
            read.only_commits,
            has_conditions=read.has_conditions,
        )
        return CommitMetadata.from_json(lines[1] if len(lines) > 1 else "{}", version)


def _as_tuples(partitions: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(ids) for ids in partitions)
