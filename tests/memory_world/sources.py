"""Sources of numbered rows, whose offsets are positions in the sequence of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from penstock.engine.data_stream import DataStream
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.read_limit import ALL_AVAILABLE, ReadLimit, ReadMaxRows

RowRange = tuple[int, int]
"""The rows from the first number up to, not including, the second. Rows are numbered from 0."""


@dataclass(frozen=True)
class Abilities:
    """The optional features that a source supports, and the limit it was configured with."""

    admission_control: bool = False
    available_now: bool = False
    latest_seen: bool = False
    limit: ReadLimit = ALL_AVAILABLE
    reports_latest: bool = True


class RowStream(DataStream):
    """A source that has `row_count()` rows so far. The offset after n rows is `origin + n`."""

    origin: int
    """The offset before the first row."""
    reports_backlog = False

    def __init__(self, abilities: Abilities) -> None:
        self.abilities = abilities
        self.held_at: int | None = None
        """The offset that `prepare_for_trigger_available_now` set as the last."""

    @abstractmethod
    def row_count(self) -> int:
        """How many rows have arrived."""

    @property
    def supports_admission_control(self) -> bool:
        return self.abilities.admission_control

    @property
    def supports_trigger_available_now(self) -> bool:
        return self.abilities.available_now

    @property
    def accepts_latest_seen_offset(self) -> bool:
        return self.abilities.latest_seen

    def deserialize_offset(self, json: str) -> Offset:
        return LongOffset(int(json))

    def default_read_limit(self) -> ReadLimit:
        return self.abilities.limit

    def prepare_for_trigger_available_now(self) -> None:
        self.held_at = self.origin + self.row_count()

    def report_latest_offset(self) -> Offset | None:
        if not self.abilities.reports_latest:
            return None
        return LongOffset(self.origin + self.row_count())

    def backlog_rows(self, start: Offset | None) -> int | None:
        first = self.origin if start is None else LongOffset.of(start).value
        return max(self.origin + self.row_count() - first, 0) if self.reports_backlog else None

    def end_within(self, start: Offset | None, limit: ReadLimit) -> int:
        """The offset at which a batch from `start` ends under a limit."""
        available = self.origin + self.row_count()
        if self.held_at is not None:
            available = min(available, self.held_at)
        if self.supports_admission_control and isinstance(limit, ReadMaxRows):
            first = self.origin if start is None else LongOffset.of(start).value
            # A batch planned by an earlier run may end after `held_at`: offsets never decrease.
            return max(first, min(available, first + limit.max_rows))
        return available

    def rows_between(self, start: Offset | None, end: Offset) -> RowRange:
        """The rows after `start` up to and including `end`."""
        first = self.origin if start is None else LongOffset.of(start).value
        return first - self.origin, LongOffset.of(end).value - self.origin
