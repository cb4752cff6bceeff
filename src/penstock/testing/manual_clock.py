"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import datetime

from penstock.engine.clock import Clock

_POLL_SECONDS = 0.01


class ManualClock(Clock):
    """Time by hand, for `write_stream(df).stepped(clock)` and for triggers with an interval.

    It is the only time that a query on it knows: the timestamp of a batch, and with it
    `current_timestamp()` and the timers and timeouts of stateful operators, and the durations in
    progress. May be moved from any thread, forwards only with `advance`, anywhere with `set`.
    """

    def __init__(self, start: int | datetime = 0) -> None:
        """`start` in milliseconds since the epoch, or as a datetime."""
        self._changed = threading.Condition()
        self._now_ms = _millis(start)

    def __repr__(self) -> str:
        return f"ManualClock({self._now_ms})"

    def time_millis(self) -> int:
        return self._now_ms

    def advance(self, seconds: float = 0, *, ms: int = 0) -> int:
        """Move on by seconds, milliseconds or both; returns the time then, in milliseconds."""
        step = round(seconds * 1000) + ms
        if step < 0:
            raise ValueError(f"a clock advances forwards, not by {step} ms; see set()")
        with self._changed:
            self._now_ms += step
            self._changed.notify_all()
            return self._now_ms

    def set(self, time: int | datetime) -> None:
        """Make it that time, in milliseconds since the epoch or as a datetime."""
        with self._changed:
            self._now_ms = _millis(time)
            self._changed.notify_all()

    def wait_till_time(self, target_ms: int, wake: threading.Event) -> int:
        """Wait until somebody has made it that time, or `wake` is set."""
        with self._changed:
            # `wake` is set by others, who do not know of the condition: so look now and then.
            while self._now_ms < target_ms and not wake.is_set():
                self._changed.wait(_POLL_SECONDS)
            return self._now_ms


def _millis(time: int | datetime) -> int:
    """A naive datetime is local time, as everywhere in PySpark."""
    return round(time.timestamp() * 1000) if isinstance(time, datetime) else time
