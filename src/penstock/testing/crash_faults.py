"""Fault injectors that record the fault points a query reaches and crash it at one of them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.faults import OF_EACH_SINK, OF_EVERY_QUERY, FaultInjector, FaultPoint
from penstock.errors import ExecutionError

STOP_POINTS = frozenset({FaultPoint.BEFORE_STOP_SOURCES, FaultPoint.AFTER_STOP_SOURCES})
"""Reached after the query has ended, so only a kill of the process can crash here."""


class SimulatedCrash(BaseException):
    """Ends a query as a crash would, without ending the process.

    Not a subclass of Exception, so that `except Exception` does not catch it.
    """


@dataclass(frozen=True)
class BatchPoint:
    """A fault point in a particular batch; the batch id is -1 before the first batch.

    A point that is reached once for each of many sinks has their number, counted from 1, as `nth`.
    `str()` is `point:batch_id` or, from the second on, `point:batch_id:nth`; `parse` reads both.
    """

    point: FaultPoint
    batch_id: int
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.point.value}:{self.batch_id}" + (f":{self.nth}" if self.nth > 1 else "")

    @classmethod
    def parse(cls, text: str) -> BatchPoint:
        point, batch_id, *nth = text.split(":")
        return cls(FaultPoint(point), int(batch_id), *map(int, nth))


class PointRecorder(FaultInjector):
    """Records each fault point that is reached in `seen`, and crashes at `crash_at`, once."""

    def __init__(
        self, crash_at: BatchPoint | None = None, crash: Callable[[], None] | None = None
    ) -> None:
        """`crash` is called at `crash_at`; by default it raises SimulatedCrash."""
        self._crash_at = crash_at
        self._crash = crash or _crash
        self._times: Counter[tuple[FaultPoint, int]] = Counter()
        self._lock = threading.Lock()
        self.seen: list[BatchPoint] = []

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        with self._lock:
            self._times[point, batch_id] += 1
            nth = self._times[point, batch_id] if point in OF_EACH_SINK else 1
            reached = BatchPoint(point, batch_id, nth)
            self.record(reached)
            is_crash = reached == self._crash_at
            if is_crash:
                self._crash_at = None
        if is_crash:
            self._crash()

    def record(self, reached: BatchPoint) -> None:
        self.seen.append(reached)


class FilePointRecorder(PointRecorder):
    """Appends the fault points to a file, which remains when the process is killed."""

    def __init__(
        self, file: str, crash_at: BatchPoint | None, crash: Callable[[], None] | None
    ) -> None:
        super().__init__(crash_at, crash)
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def record(self, reached: BatchPoint) -> None:
        os.write(self._descriptor, f"{reached}\n".encode())


def _crash() -> None:
    raise SimulatedCrash("a crash injected by a test")


def choose_crash_points(
    reached: Sequence[BatchPoint], points: Sequence[FaultPoint] | None, *, every_batch: bool
) -> list[BatchPoint]:
    """Choose where to crash, among the points that a run without a crash has reached.

    With `every_batch`, each point in every batch; otherwise each point once, in batch 1 if it is
    reached there, because that batch has a predecessor. A point of many sinks counts for each of
    them. The result is in the order of FaultPoint.
    """
    crash_points: list[BatchPoint] = []
    for point in FaultPoint:
        if points is not None and point not in points:
            continue
        batches = list(dict.fromkeys(p.batch_id for p in reached if p.point is point))
        if batches and not every_batch:
            batches = [1] if 1 in batches else batches[:1]
        of_point = dict.fromkeys(p for p in reached if p.point is point and p.batch_id in batches)
        crash_points += of_point
    return crash_points


def not_crashed(
    crash_points: Sequence[BatchPoint], points: Sequence[FaultPoint] | None
) -> list[FaultPoint]:
    """The points of every query at which there is no crash, if all points were wanted.

    Raises ExecutionError if certain points were wanted and one of them was not reached.
    """
    crashed = {crash_point.point for crash_point in crash_points}
    wanted = OF_EVERY_QUERY if points is None else points
    missed = [point for point in wanted if point not in crashed]
    if points is not None and missed:
        raise ExecutionError(
            f"The run without a crash did not reach {', '.join(point.value for point in missed)}, "
            "so there can be no crash there. Without a choice of points, a test crashes at all "
            "that are reached."
        )
    return missed


def delivered_again(before: Sequence[BatchPoint], after: Sequence[BatchPoint]) -> tuple[int, ...]:
    """The batches that were written to the sink both before and after the crash."""
    first, second = (
        {p.batch_id for p in reached if p.point is FaultPoint.AFTER_SINK}
        for reached in (before, after)
    )
    return tuple(sorted(first & second))


@contextlib.contextmanager
def crashes_not_logged() -> Iterator[None]:
    """Keep the engine from logging simulated crashes in the block."""

    def is_no_crash(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], SimulatedCrash))

    logger = logging.getLogger("penstock.engine.stream_execution")
    logger.addFilter(is_no_crash)
    try:
        yield
    finally:
        logger.removeFilter(is_no_crash)
