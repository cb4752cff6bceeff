"""Computes how large the next batch should be, from how long the last ones took."""

from __future__ import annotations

import math

MOST_GROWTH = 4.0
"""A batch is at most this many times as large as the one before."""

HELD_WITHIN = 0.1
"""A batch whose duration differs from the target by less than this share is repeated as it is."""

_SMALL_CHANGE = 1.5
"""A change by less than this factor is made by half, as it may be chance."""

_SMALLEST_ROOM = 0.1
_DISTINCT = 1.5
_WEIGHT_OF_ESTIMATE = 0.5


class PaceController:
    """Keeps the duration of batches near a target. Knows neither sources nor clocks.

    The duration of a batch is modelled as a fixed part and a part proportional to its work. The
    proportional part is computed from the last batch alone, so that it follows a change at once;
    the fixed part is estimated from batches of different size.
    """

    def __init__(self, target_ms: float) -> None:
        self.target_ms = target_ms
        self.fixed_ms = 0.0
        """The current estimate of the part that does not depend on the size of a batch."""
        self._other: tuple[float, float] | None = None

    def observe(self, work: float | None, duration_ms: float) -> float:
        """The size of the next batch, as a factor of the size of this one; at most MOST_GROWTH.

        `work` is the size of this batch in any unit, the same in every call; None if it is not
        known, and then the fixed part is not estimated. `duration_ms` is not negative.
        """
        if work is not None:
            self._estimate_fixed(work, duration_ms)
        self.fixed_ms = min(self.fixed_ms, duration_ms)
        if abs(duration_ms - self.target_ms) <= HELD_WITHIN * self.target_ms:
            return 1.0
        # If the fixed part alone takes the target, small batches would not make it shorter.
        room = max(self.target_ms - self.fixed_ms, _SMALLEST_ROOM * self.target_ms)
        spent = duration_ms - self.fixed_ms
        factor = room / spent if spent * MOST_GROWTH > room else MOST_GROWTH
        is_small = 1 / _SMALL_CHANGE < factor < _SMALL_CHANGE
        return math.sqrt(factor) if is_small else factor

    def _estimate_fixed(self, work: float, duration_ms: float) -> None:
        this, other = (work, duration_ms), self._other or (work, duration_ms)
        (less, shorter), (more, longer) = sorted([other, this])
        if more < _DISTINCT * less and self._other is not None:
            return  # too similar
        self._other = this
        if longer <= shorter:
            return  # not explained by the size
        estimate = shorter - (longer - shorter) / (more - less) * less
        self.fixed_ms += _WEIGHT_OF_ESTIMATE * (max(estimate, 0.0) - self.fixed_ms)
