"""How often, and after how long, what failed is started again. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """So many restarts in a row at most, each after a delay.

    The delay doubles with each failure in a row, up to a cap. Raises ValueError for what is
    negative.
    """

    max_restarts: int = 10
    backoff: float = 1.0
    max_backoff: float = 60.0

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or self.backoff < 0 or self.max_backoff < 0:
            raise ValueError(f"neither a number of restarts nor a delay can be negative: {self}")

    def delay(self, failures_in_a_row: int) -> float:
        """Seconds to wait after the n-th failure in a row, counted from 1."""
        doublings = min(failures_in_a_row - 1, 64)
        return float(min(self.backoff * 2**doublings, self.max_backoff))
