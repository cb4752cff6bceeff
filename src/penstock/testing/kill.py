"""Faults that strike a query at a point of its protocol."""

from __future__ import annotations

import os
import signal

from penstock.engine.faults import FaultInjector, FaultPoint


class KillAt(FaultInjector):
    """Kills this process, for real and with nothing cleaned up, at a point of a batch."""

    def __init__(self, point: FaultPoint, batch_id: int) -> None:
        self._point = point
        self._batch_id = batch_id

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self._point and batch_id == self._batch_id:
            os.kill(os.getpid(), signal.SIGKILL)
