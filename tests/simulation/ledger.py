"""The checker's own book of what is durable, kept apart from anything the engine remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.checkpoint import OffsetSeqMetadata

Ranges = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Decision:
    """What `offsets/N` says: where each source of the plan ends, with which watermark and time."""

    version: str
    ends: tuple[int | None, ...]
    watermark_ms: int
    timestamp_ms: int
    conf: Mapping[str, str]

    @classmethod
    def read(cls, data: bytes) -> Decision:
        """Parsed here and not by the engine's own log, so that the two check each other."""
        version, metadata, *offsets = data.decode().split("\n")
        fields = json.loads(metadata)
        return cls(
            version,
            tuple(None if offset == "-" else int(offset) for offset in offsets),
            fields["batchWatermarkMs"],
            fields["batchTimestampMs"],
            fields["conf"],
        )


@dataclass(frozen=True)
class BatchRun:
    """What a sink saw of one attempt at a batch; the rows by the number of their source."""

    batch_id: int
    ranges: Ranges
    watermark_ms: int
    timestamp_ms: int
    previous: OffsetSeqMetadata | None

    def __str__(self) -> str:
        rows = ["-" if r is None else f"{r[0]}..{r[1]}" for r in self.ranges]
        return (
            f"batch {self.batch_id} (rows {', '.join(rows)}; watermark {self.watermark_ms}; "
            f"timestamp {self.timestamp_ms})"
        )


@dataclass
class Ledger:
    """Every decision and commit ever made, which of them still have their file, and the sink.

    `first_runs` has each batch as it reached the sink first, `written` those that were written
    to the end at least once: what a sink holds that is idempotent by batch id.
    """

    has_metadata: bool = False
    decisions: dict[int, Decision] = field(default_factory=dict)
    commits: dict[int, int] = field(default_factory=dict)
    offset_files: set[int] = field(default_factory=set)
    commit_files: set[int] = field(default_factory=set)
    first_runs: dict[int, BatchRun] = field(default_factory=dict)
    written: dict[int, BatchRun] = field(default_factory=dict)

    def take_over(self, other: Ledger) -> None:
        """Become a copy of another, of which later entries are independent."""
        self.has_metadata = other.has_metadata
        self.decisions.update(other.decisions)
        self.commits.update(other.commits)
        self.offset_files.update(other.offset_files)
        self.commit_files.update(other.commit_files)
        self.first_runs.update(other.first_runs)
        self.written.update(other.written)

    @property
    def latest_decision(self) -> int:
        """The last batch that was decided; -1 if there is none."""
        return len(self.decisions) - 1

    @property
    def latest_commit(self) -> int:
        """The last batch that is done; -1 if there is none."""
        return len(self.commits) - 1

    def end_of(self, batch_id: int, position: int) -> int | None:
        """Where a source, by its position in the plan, ends in a batch; None before the first."""
        return self.decisions[batch_id].ends[position] if batch_id >= 0 else None
