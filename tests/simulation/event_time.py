"""The event times of simulated rows: increasing with some disorder, and deterministic."""

from __future__ import annotations

DELAY_MS = 700
_DISORDER_MS = (0, 900, 200, 1700, 400)


def event_time_ms(source: int, row: int) -> int:
    """The event time of a row."""
    return 1000 * (row + 1) + _DISORDER_MS[(3 * row + source) % len(_DISORDER_MS)]


def latest_event_ms(source: int, first: int, last: int) -> int:
    """The latest event time of the rows from `first` up to, not including, `last`; 0 if none."""
    return max((event_time_ms(source, row) for row in range(first, last)), default=0)
