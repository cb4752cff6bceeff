"""Triggers by hand: one each time that somebody asks for one."""

from __future__ import annotations

import threading


class StepGate:
    """Lets the query's thread through one trigger at a time.

    Those who step wait until their trigger is over. Once closed, nobody waits any more.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._done = 0
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def step(self, timeout: float | None = None) -> bool:
        """Ask for one trigger and wait until it is over. False if it will not come, or not yet.

        It will not come when the query has ended.
        """
        with self._changed:
            self._asked += 1
            wanted = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= wanted or self._closed, timeout)
            return self._done >= wanted

    def wait_until_asked(self) -> bool:
        """Called by the query's thread: True when a trigger is due, False when it is all over."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked > self._done or self._closed)
            return not self._closed

    def finish(self) -> None:
        """Called by the query's thread when a trigger is over."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def close(self) -> None:
        """No more triggers. Whoever waits is let go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
