"""The event times of simulated rows: rising, with some disorder, the same whenever asked."""

from __future__ import annotations

DELAY_MS = 700
_DISORDER_MS = (0, 900, 200, 1700, 400)


def event_time_ms(source: int, row: int) -> int:
    """When the event of a row happened."""
    return 1000 * (row + 1) + _DISORDER_MS[(3 * row + source) % len(_DISORDER_MS)]


def latest_event_ms(source: int, first: int, last: int) -> int:
    """The latest event among the rows from `first` up to, not including, `last`; 0 for no rows."""
    return max((event_time_ms(source, row) for row in range(first, last)), default=0)
