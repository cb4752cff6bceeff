"""Exponential backoff between restarts. Imports no Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """At most `max_restarts` consecutive restarts, with a delay in seconds before each.

    The delay before the first restart is `backoff`; it doubles with each consecutive failure, up
    to `max_backoff`. Raises TypeError if a value is not a number, ValueError if it is negative.
    """

    max_restarts: int = 10
    backoff: float = 1.0
    max_backoff: float = 60.0

    def __post_init__(self) -> None:
        for value in (self.max_restarts, self.backoff, self.max_backoff):
            if not isinstance(value, (int, float)):
                raise TypeError(
                    "max_restarts is a number, backoff and max_backoff are numbers of seconds, not "
                    f"{value!r}"
                )
        if self.max_restarts < 0 or self.backoff < 0 or self.max_backoff < 0:
            raise ValueError(f"max_restarts, backoff and max_backoff must not be negative: {self}")

    def delay(self, failures_in_a_row: int) -> float:
        """The seconds to wait after the n-th consecutive failure, counted from 1."""
        doublings = min(failures_in_a_row - 1, 64)
        return float(min(self.backoff * 2**doublings, self.max_backoff))
