"""`stop` at each fault point of a batch: it is prompt, no failure, and the query resumes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import read_stream, write_stream
from penstock.engine.faults import FaultInjector, FaultPoint
from tests.streams import PATIENCE, StandingNumbers, column, eventually, log_entries, run_available

HELD_BATCH = 1
POINTS = [
    FaultPoint.BEFORE_SOURCES,
    FaultPoint.BEFORE_START_OFFSETS,
    FaultPoint.BEFORE_LATEST_OFFSET,
    FaultPoint.BEFORE_OFFSET_LOG,
    FaultPoint.AFTER_OFFSET_LOG,
    FaultPoint.BEFORE_GET_BATCH,
    FaultPoint.BEFORE_PLANNING,
    FaultPoint.BEFORE_SINK,
    FaultPoint.AFTER_SINK,
    FaultPoint.BEFORE_COMMIT_LOG,
    FaultPoint.AFTER_COMMIT_LOG,
]


class HeldAt(FaultInjector):
    """Blocks the query's thread at a fault point until the test releases it."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point
        self.reached = threading.Event()
        self.opened = threading.Event()

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self._point and batch_id in (-1, HELD_BATCH):
            self.reached.set()
            assert self.opened.wait(PATIENCE)


@pytest.mark.parametrize("point", POINTS)
def test_a_query_stopped_at_any_point_resumes_after_a_restart(
    session: SparkSession, checkpoint: Path, point: FaultPoint
) -> None:
    seen: dict[int, list[int]] = {}
    held = HeldAt(point)
    writer = write_stream(read_stream(StandingNumbers(3, at_most=1), session))
    writer.foreachBatch(lambda df, batch_id: seen.update({batch_id: column(df)}))
    writer.option("checkpointLocation", str(checkpoint)).inject_faults(held)
    query = writer.start()
    assert held.reached.wait(PATIENCE)
    stopper = threading.Thread(target=lambda: query.stop(timeout=PATIENCE))
    stopper.start()
    eventually(lambda: query._execution.life.is_stopping, "the stop to be requested")
    held.opened.set()
    stopper.join(PATIENCE)
    assert not stopper.is_alive()
    assert query.exception() is None
    assert max(log_entries(checkpoint, "offsets"), default=-1) <= HELD_BATCH
    again = read_stream(StandingNumbers(3, at_most=1), session)
    run_available(again, lambda df, batch_id: seen.update({batch_id: column(df)}), checkpoint)
    assert seen == {0: [0], 1: [1], 2: [2]}
    assert log_entries(checkpoint, "commits") == [0, 1, 2]
