"""The checker's own record of what is durable, independent of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.checkpoint import OffsetSeqMetadata

Ranges = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Decision:
    """The content of `offsets/N`: the end of each source, the watermark and the timestamp."""

    version: str
    ends: tuple[int | None, ...]
    watermark_ms: int
    timestamp_ms: int
    conf: Mapping[str, str]

    @classmethod
    def read(cls, data: bytes) -> Decision:
        """Parse an entry, without the engine's own parser, so that the two check each other."""
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
    """One attempt at a batch as the sink sees it; `ranges` has the rows of each source."""

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
class SinkLedger:
    """One of many sinks: the batches that it has written, and all entries ever written for it."""

    written: set[int] = field(default_factory=set)
    entries: set[int] = field(default_factory=set)

    def copy(self) -> SinkLedger:
        return SinkLedger(set(self.written), set(self.entries))


@dataclass
class Ledger:
    """All entries ever written to the two logs, which of their files exist, and the sink.

    `first_runs` has the first attempt at each batch, `written` the batches that were completely
    written at least once: the content of a sink that is idempotent by batch id. With named sinks a
    batch is in `written` when all of them have it; `sinks` has each of them.
    """

    has_metadata: bool = False
    decisions: dict[int, Decision] = field(default_factory=dict)
    commits: dict[int, int] = field(default_factory=dict)
    offset_files: set[int] = field(default_factory=set)
    commit_files: set[int] = field(default_factory=set)
    first_runs: dict[int, BatchRun] = field(default_factory=dict)
    written: dict[int, BatchRun] = field(default_factory=dict)
    sinks: dict[str, SinkLedger] = field(default_factory=dict)
    has_names: bool = False

    def take_over(self, other: Ledger) -> None:
        """Copy the content of another ledger."""
        self.has_metadata = other.has_metadata
        self.decisions.update(other.decisions)
        self.commits.update(other.commits)
        self.offset_files.update(other.offset_files)
        self.commit_files.update(other.commit_files)
        self.first_runs.update(other.first_runs)
        self.written.update(other.written)
        self.sinks = {name: sink.copy() for name, sink in other.sinks.items()}
        self.has_names = other.has_names

    @property
    def latest_decision(self) -> int:
        """The latest batch in the offset log; -1 if there is none."""
        return len(self.decisions) - 1

    @property
    def latest_commit(self) -> int:
        """The latest batch in the commit log; -1 if there is none."""
        return len(self.commits) - 1

    def end_of(self, batch_id: int, position: int) -> int | None:
        """The end of a source, given its position in the plan, in a batch; None for batch -1."""
        return self.decisions[batch_id].ends[position] if batch_id >= 0 else None
