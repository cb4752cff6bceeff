"""How long a query that found nothing to do waits before it asks its sources again."""

from __future__ import annotations

import threading
from enum import Enum

_SHARE_OF_SILENCE = 0.1
_LONGEST_IN_DELAYS = 10


class WhenIdle(Enum):
    """What follows a trigger that found nothing to do."""

    POLL = "wait for the polling delay"
    BACK_OFF = "wait for the polling delay, and longer the longer there is no data"
    NEXT_TRIGGER = "no wait beside the executor's own"
    END = "the query ends"


class Polling:
    """The waits between questions that nobody has an answer to.

    They begin with the polling delay. With BACK_OFF they grow with the silence, up to a tenth of
    it and up to ten polling delays, so that an idle query costs little and data is found late only
    after a long time without any. Whoever knows that there is data sets `nudge`, from any thread:
    that ends the wait.
    """

    def __init__(
        self, delay_ms: int, nudge: threading.Event, when_idle: WhenIdle = WhenIdle.POLL
    ) -> None:
        self._delay = 0 if when_idle is WhenIdle.NEXT_TRIGGER else delay_ms / 1000
        self._longest = self._delay * (_LONGEST_IN_DELAYS if when_idle is WhenIdle.BACK_OFF else 1)
        self._nudge = nudge
        self._silence = 0.0

    def wait(self) -> None:
        """Wait once more. Called when a trigger had nothing to do."""
        wait = max(min(self._silence * _SHARE_OF_SILENCE, self._longest), self._delay)
        if self._nudge.wait(wait):
            self._nudge.clear()
            self.end_silence()
        else:
            self._silence += wait

    def end_silence(self) -> None:
        """There was something to do: the next wait is a short one."""
        self._silence = 0.0
