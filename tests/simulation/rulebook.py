"""The state that the rules share: the query, the ledger, and the current run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tests.simulation.event_time import DELAY_MS, latest_event_ms
from tests.simulation.ledger import BatchRun, Ledger, Ranges
from tests.simulation.life import Killed, Life
from tests.simulation.schedule import FaultKind, QueryShape, TriggerKind

_POLICY_KEY = "spark.sql.streaming.multipleWatermarkPolicy"


class Mode(Enum):
    """How a trigger runs the query, which depends on its sources."""

    CONTINUOUS = "until stopped"
    SINGLE = "one batch"
    MULTI = "until the data that was available at the start is processed"


class Rulebook:
    """Per schedule: shape, rows and ledger. Per run: the fields that `run_starts` sets."""

    def __init__(self, shape: QueryShape, rows: Sequence[int], ledger: Ledger) -> None:
        self.shape = shape
        self.rows = rows
        self.ledger = ledger
        self.violations: list[str] = []
        self.checkpoint_away: FaultKind | None = None
        self.commit_is_lost = False

    def run_starts(self, life: Life) -> None:
        ledger = self.ledger
        self.mode = self._mode(life)
        self.rows_at_start = tuple(self.rows)
        self.last_done_at_start = ledger.latest_commit
        self.had_planned_batch = ledger.latest_decision > ledger.latest_commit
        self.files_at_start = (frozenset(ledger.offset_files), frozenset(ledger.commit_files))
        self.requested: set[tuple[int, int, int]] = set()
        self.reported: set[int] = set()
        self.checkpoint_away = None
        self.commit_is_lost = False
        self.decided: list[int] = []
        self.written_here: set[int] = set()
        self._seen: dict[int, int] = {}
        enough = bool(self.shape.after) and ledger.failures_of_plan >= self.shape.after
        self.due_for_quarantine = enough and self.had_planned_batch
        self.planned_at_start = ledger.latest_decision

    def violated(self, life: Life, message: str) -> Killed:
        """Record a violation. Raise the result."""
        self.violations.append(f"run {life.number}: {message}")
        return life.die()

    def computed(self, batch: BatchRun) -> None:
        """A batch of a query with named sinks is computed; it may run twice in one run."""
        self.batch_written(batch)

    def batch_written(self, batch: BatchRun) -> None:
        self.written_here.add(batch.batch_id)
        for source, pieces in enumerate(batch.rows):
            for rows in pieces:
                seen = latest_event_ms(source, *rows) - DELAY_MS
                self._seen[source] = max(seen, self._seen.get(source, seen))

    def ranges_of(self, batch_id: int) -> Ranges:
        """The rows of a batch according to the offset log; None for a source without new rows."""
        ledger = self.ledger
        ranges: list[tuple[int, int] | None] = []
        for source in range(len(self.shape.sources)):
            start = ledger.end_of(batch_id - 1, source)
            end = ledger.end_of(batch_id, source)
            ranges.append(None if end is None or start == end else (start or 0, end))
        return tuple(ranges)

    def nothing_passes(self, batch_id: int) -> bool:
        """Whether a batch has several parts, and each of them makes it fail."""
        ranges = self.ranges_of(batch_id)
        kinds = [source.kind for source in self.shape.sources]
        # Only a V1 source has a part without rows: the start of its first batch is not known.
        if any(rows and rows[0] == rows[1] and kinds[n].is_v1 for n, rows in enumerate(ranges)):
            return False
        parts = {(n, row) for n, rows in enumerate(ranges) if rows for row in range(*rows)}
        return len(parts) > 1 and parts <= set(self.shape.poison)

    @property
    def is_stuck(self) -> bool:
        """Whether the planned batch fails for ever, because nothing of it may be put aside."""
        latest = self.ledger.latest_decision
        is_due = self.due_for_quarantine and self.planned_at_start == latest
        return is_due and self.nothing_passes(latest)

    def next_watermark(self, batch_id: int) -> int:
        """The expected watermark in the commit of a batch, from the rows of this run."""
        decision = self.ledger.decisions[batch_id]
        if not self.shape.is_stateful:
            return decision.watermark_ms
        seen = [self._seen.get(source, 0) for source in range(len(self.shape.sources))]
        chosen = max(seen) if decision.conf[_POLICY_KEY] == "max" else min(seen)
        return max(decision.watermark_ms, chosen)

    def limit_of(self, source: int) -> int | None:
        """The largest number of rows of a source in a new batch; None for no limit."""
        shape = self.shape.sources[source]
        if not shape.kind.has_limit or self.mode is Mode.SINGLE:
            return None
        if self.mode is Mode.MULTI and not shape.kind.supports_available_now:
            return None  # the wrapper ignores limits
        return shape.max_rows

    def _mode(self, life: Life) -> Mode:
        match life.run.trigger:
            case TriggerKind.ONCE:
                return Mode.SINGLE
            case TriggerKind.AVAILABLE:
                can = self.shape.available_now_wrapper or all(
                    source.kind.supports_available_now for source in self.shape.sources
                )
                return Mode.MULTI if can else Mode.SINGLE
        return Mode.CONTINUOUS
