"""A histogram of durations with fixed buckets, as Prometheus needs it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The inclusive upper bounds of the buckets, in seconds; one more bucket is unbounded."""


@dataclass(frozen=True)
class HistogramSnapshot:
    """A histogram at one moment: the number of values in each bucket, and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    total: float = 0.0

    def cumulative(self) -> list[tuple[float, int]]:
        """For each upper bound, infinity last, the number of values at most as large."""
        seen, pairs = 0, []
        for bound, count in zip((*BOUNDS, float("inf")), self.counts, strict=True):
            seen += count
            pairs.append((bound, seen))
        return pairs


class Histogram:
    """Counts values by bucket. Not thread-safe."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(BOUNDS, value)] += 1
        self._total += value

    def snapshot(self) -> HistogramSnapshot:
        return HistogramSnapshot(tuple(self._counts), self._total)
