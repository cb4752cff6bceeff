"""A fault injector that kills the process."""

from __future__ import annotations

import os
import signal

from penstock.engine.faults import FaultInjector, FaultPoint


class KillAt(FaultInjector):
    """Kills this process with SIGKILL at a fault point of a batch.

    write_stream(df).inject_faults(KillAt(FaultPoint.AFTER_SINK, 1)).start()
    """

    def __init__(self, point: FaultPoint, batch_id: int) -> None:
        self._point = point
        self._batch_id = batch_id

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self._point and batch_id == self._batch_id:
            os.kill(os.getpid(), signal.SIGKILL)
