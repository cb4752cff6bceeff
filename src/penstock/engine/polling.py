"""How long a query without new data waits before it requests offsets again."""

from __future__ import annotations

import threading
from enum import Enum

_SHARE_OF_IDLE_TIME = 0.1
_LONGEST_IN_DELAYS = 10
_LONGEST_IN_POLLS = 100
_LONGEST_SECONDS = 1.0


class WhenIdle(Enum):
    """What a query does after a trigger without a batch."""

    POLL = "wait for the polling delay"
    BACK_OFF = "wait for the polling delay, longer the longer there has been no data"
    NEXT_TRIGGER = "only the wait of the trigger's executor"
    END = "the query ends"


class Polling:
    """The wait after a trigger without a batch.

    The first wait is the polling delay. With BACK_OFF the wait grows to a tenth of the time since
    the last batch, up to ten polling delays or, if that is longer, a hundred times as long as the
    poll took, up to a second. So an idle query polls for a hundredth of the time, and new data is
    found late only after a long time without data. Setting `nudge`, from any thread, ends the wait.
    """

    def __init__(
        self, delay_ms: int, nudge: threading.Event, when_idle: WhenIdle = WhenIdle.POLL
    ) -> None:
        self._delay = 0 if when_idle is WhenIdle.NEXT_TRIGGER else delay_ms / 1000
        self._backs_off = when_idle is WhenIdle.BACK_OFF and delay_ms > 0
        self._nudge = nudge
        self._idle_seconds = 0.0

    def wait(self, poll_seconds: float) -> None:
        """Wait. Called after a trigger without a batch, which took `poll_seconds`."""
        wait = self._delay
        if self._backs_off:
            by_cost = min(poll_seconds * _LONGEST_IN_POLLS, _LONGEST_SECONDS)
            longest = max(self._delay * _LONGEST_IN_DELAYS, by_cost)
            wait = max(min(self._idle_seconds * _SHARE_OF_IDLE_TIME, longest), wait)
        if self._nudge.wait(wait):
            self._nudge.clear()
            self.reset()
        else:
            self._idle_seconds += wait

    def reset(self) -> None:
        """Make the next wait a short one. Called after a batch."""
        self._idle_seconds = 0.0
