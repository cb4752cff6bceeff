"""A clock that is moved by a test."""

from __future__ import annotations

import threading
from datetime import datetime

from penstock.engine.clock import Clock

_POLL_SECONDS = 0.01


class ManualClock(Clock):
    """A clock that only moves when a test moves it.

    A query started with `write_stream(df).stepped(clock)` takes all its times from the clock: the
    timestamp of a batch, and with it `current_timestamp()` and the timers and timeouts of stateful
    operators, and the durations in its progress. Every method may be called from any thread.

        clock = ManualClock(datetime(2024, 1, 1, tzinfo=timezone.utc))
        query = write_stream(df).format("noop").stepped(clock).start()
        clock.advance(60)
        query.step()
    """

    def __init__(self, start: int | datetime = 0) -> None:
        """`start` is in milliseconds since the epoch, or a datetime."""
        self._changed = threading.Condition()
        self._now_ms = _millis(start)

    def __repr__(self) -> str:
        return f"ManualClock({self._now_ms})"

    def time_millis(self) -> int:
        """The current time in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, seconds: float = 0, *, ms: int = 0) -> int:
        """Move the clock forward by `seconds` plus `ms`; returns the new time in milliseconds.

        Raises ValueError if the sum is negative; use `set` to move the clock back.
        """
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"cannot advance by {step} ms; use set() to move the clock back")
        with self._changed:
            self._now_ms += step
            self._changed.notify_all()
            return self._now_ms

    def set(self, time: int | datetime) -> None:
        """Set the time, in milliseconds since the epoch or as a datetime."""
        with self._changed:
            self._now_ms = _millis(time)
            self._changed.notify_all()

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        """Wait until the clock has been moved to `target_ms`, or `wake` is set."""
        with self._changed:
            # Setting `wake` does not notify the condition, so it is polled.
            while self._now_ms < target_ms and not wake.is_set():
                self._changed.wait(_POLL_SECONDS)
            return self._now_ms


def _millis(time: int | datetime) -> int:
    """Milliseconds since the epoch; a naive datetime is local time, as in PySpark."""
    return round(time.timestamp() * 1000) if isinstance(time, datetime) else time
