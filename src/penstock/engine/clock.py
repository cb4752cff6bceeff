"""The clock that the engine reads and waits on."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

_UNEVEN_MS = 100
"""A deviation below this is not taken for a clock that was set back."""


class Clock(ABC):
    """Source of the time. It is injected, so that tests can set it."""

    @abstractmethod
    def time_millis(self) -> int:
        """Milliseconds since the epoch."""

    @abstractmethod
    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        """Wait until the time is `target_ms` or `wake` is set; returns the time then.

        If the clock is set back during the wait, the wait takes at most twice as long as planned,
        and the returned time may be before the target.
        """

    def elapsed_millis(self) -> float:
        """A monotonic reading for measuring durations; only differences are meaningful."""
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
