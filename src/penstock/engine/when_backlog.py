"""A trigger that waits until enough rows can be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.clock import Clock
from penstock.engine.data_stream import DataStream
from penstock.engine.durations import parse_duration
from penstock.engine.polling import WhenIdle
from penstock.engine.triggers import (
    Admission,
    ProcessingTimeExecutor,
    Schedule,
    Surroundings,
    Trigger,
)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WhenBacklog(Trigger):
    """Runs a batch when the sources have `rows` rows to read, or have had some for `or_after`.

    `rows` is the sum over all sources; the time is counted from when the query first finds a row.
    A source that does not report its backlog (see `PythonSource.backlog_rows`; Kafka does, files
    do not) is read at least every `or_after`. The query polls for rows like one without a trigger,
    and its batches are within the read limits of the sources. A batch that an earlier run has
    planned, and a batch without data that state needs, do not wait.

    Raises ValueError if an argument is not valid.
    """

    rows: int
    or_after: str = "1 minute"

    def __post_init__(self) -> None:
        rows: object = self.rows
        if not isinstance(rows, int) or rows < 1:
            raise ValueError(f"rows is {rows!r}; it must be a whole number of at least 1")
        parse_duration(self.or_after, "or_after")

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        clock = surroundings.clock
        return Schedule.of(
            sources,
            ProcessingTimeExecutor(0, clock, surroundings.stopping),
            when_idle=WhenIdle.BACK_OFF,
            admission=EnoughRows(self.rows, parse_duration(self.or_after, "or_after"), clock),
        )


class EnoughRows(Admission):
    """Admits a batch when enough rows wait, or when rows have waited for long enough."""

    def __init__(self, rows: int, longest_ms: int, clock: Clock) -> None:
        self._rows = rows
        self._longest_ms = longest_ms
        self._clock = clock
        self._since_ms: int | None = None
        self._last_batch_ms = clock.time_millis()
        self._has_warned = False

    def admits(self, backlog: Sequence[int | None]) -> bool:
        now = self._clock.time_millis()
        known = sum(rows for rows in backlog if rows is not None)
        if known == 0:
            self._since_ms = None
        elif self._since_ms is None or now < self._since_ms:  # the second: the clock was set back
            self._since_ms = now
        waited_ms = 0 if self._since_ms is None else now - self._since_ms
        if None in backlog:
            self._warn_once()
            self._last_batch_ms = min(self._last_batch_ms, now)
            waited_ms = max(waited_ms, now - self._last_batch_ms)
        is_due = known >= self._rows or waited_ms >= self._longest_ms
        if is_due:
            self._since_ms, self._last_batch_ms = None, now
        return is_due

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "WhenBacklog: not every source of this query reports how many rows it has to "
                "read. The query reads at least every %s ms; the number of rows counts only for "
                "the others.",
                self._longest_ms,
            )
