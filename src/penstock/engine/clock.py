"""Time, as the engine is given it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod


class Clock(ABC):
    """Where the engine reads the time and waits for it. Injected, so that tests can set it."""

    @abstractmethod
    def time_millis(self) -> int:
        """Milliseconds since the epoch."""

    @abstractmethod
    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        """Wait until the time is `target_ms` or `wake` is set; return the time then."""

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
        while (now := self.time_millis()) < target_ms:
            if wake.wait((target_ms - now) / 1e3):
                return self.time_millis()
        return now
