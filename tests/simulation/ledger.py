"""The checker's own record of what is durable, independent of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.checkpoint import OffsetSeqMetadata

Ranges = tuple[tuple[int, int] | None, ...]
RowsLeft = tuple[tuple[tuple[int, int], ...], ...]
"""For each source the ranges of its rows, without gaps between the rows of one range."""


def rows_left(ranges: Ranges, left_out: frozenset[tuple[int, int]] = frozenset()) -> RowsLeft:
    """The rows of a batch, without some of them."""
    found = []
    for source, rows in enumerate(ranges):
        # A source with another offset, but without a row, is part of the batch.
        pieces = [rows] if rows is not None and rows[0] == rows[1] else []
        for row in range(*rows) if rows else ():
            if (source, row) in left_out:
                continue
            if pieces and pieces[-1][1] == row:
                pieces[-1] = pieces[-1][0], row + 1
            else:
                pieces.append((row, row + 1))
        found.append(tuple(pieces))
    return tuple(found)


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
    """One attempt at a batch as the sink sees it; `rows` has the rows of each source."""

    batch_id: int
    rows: RowsLeft
    watermark_ms: int
    timestamp_ms: int
    previous: OffsetSeqMetadata | None

    @property
    def ranges(self) -> Ranges:
        """The rows of each source from the first to the last; None if there are none."""
        return tuple((pieces[0][0], pieces[-1][1]) if pieces else None for pieces in self.rows)

    def __str__(self) -> str:
        rows = ["+".join(f"{a}..{b}" for a, b in pieces) or "-" for pieces in self.rows]
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
    failures: dict[int, tuple[int, int]] = field(default_factory=dict)
    left_out: dict[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    copied: dict[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    """By batch, the rows that are recorded as left out, and those that are copied.

    `failures` has the batch and the timestamp of the plan of each recorded failure.
    """

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
        self.failures.update(other.failures)
        self.left_out.update(other.left_out)
        self.copied.update(other.copied)

    @property
    def latest_decision(self) -> int:
        """The latest batch in the offset log; -1 if there is none."""
        return len(self.decisions) - 1

    @property
    def latest_commit(self) -> int:
        """The latest batch in the commit log; -1 if there is none."""
        return len(self.commits) - 1

    @property
    def failures_of_plan(self) -> int:
        """How many failures of the latest batch, as it is planned, are recorded."""
        latest = self.latest_decision
        if latest < 0:
            return 0
        plan = latest, self.decisions[latest].timestamp_ms
        return sum(failure == plan for failure in self.failures.values())

    def end_of(self, batch_id: int, position: int) -> int | None:
        """The end of a source, given its position in the plan, in a batch; None for batch -1."""
        return self.decisions[batch_id].ends[position] if batch_id >= 0 else None
