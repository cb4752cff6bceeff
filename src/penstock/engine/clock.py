"""Time, as the engine is given it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

_UNEVEN_MS = 100
"""A clock that is off by less is not one that was set back."""


class Clock(ABC):
    """Where the engine reads the time and waits for it. Injected, so that tests can set it."""

    @abstractmethod
    def time_millis(self) -> int:
        """Milliseconds since the epoch."""

    @abstractmethod
    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        """Wait until the time is `target_ms` or `wake` is set; return the time then.

        A clock that is set back meanwhile does not make the wait longer than it was to be, twice
        that at most: the time returned is before the target then.
        """

    def elapsed_millis(self) -> float:
        """A reading for measuring durations; only differences mean anything."""
        return float(self.time_millis())


class SystemClock(Clock):
    """The machine's clock."""

    def time_millis(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_millis(self) -> float:
        return time.perf_counter() * 1e3

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        left = target_ms - self.time_millis()
        while left > 0 and not wake.wait(left / 1e3):
            waited, left = left, target_ms - self.time_millis()
            if left > max(waited / 2, _UNEVEN_MS):  # the clock was set back
                break
        return self.time_millis()
