"""Manual triggers: one trigger per call of `step`."""

from __future__ import annotations

import threading


class StepGate:
    """Synchronizes the query's thread with the threads that call `step`.

    A call of `step` waits until its trigger has finished. After `close` no call waits.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requested = 0
        self._done = 0
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def step(self, timeout: float | None = None) -> bool:
        """Request one trigger and wait until it has finished.

        Returns False if the query has ended, or after `timeout` seconds.
        """
        with self._changed:
            self._requested += 1
            wanted = self._requested
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= wanted or self._closed, timeout)
            return self._done >= wanted

    def wait_for_request(self) -> bool:
        """Called on the query's thread: True when a trigger is requested, False after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._requested > self._done or self._closed)
            return not self._closed

    def finish(self) -> None:
        """Called on the query's thread when a trigger has finished."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits. No further trigger runs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
