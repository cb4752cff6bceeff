"""Fault injectors that record the fault points a query reaches and crash it at one of them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.faults import FaultInjector, FaultPoint

STOP_POINTS = frozenset({FaultPoint.BEFORE_STOP_SOURCES, FaultPoint.AFTER_STOP_SOURCES})
"""Reached after the query has ended, so only a kill of the process can crash here."""


class SimulatedCrash(BaseException):
    """Ends a query as a crash would, without ending the process.

    Not a subclass of Exception, so that `except Exception` does not catch it.
    """


@dataclass(frozen=True)
class BatchPoint:
    """A fault point in a particular batch; the batch id is -1 before the first batch.

    `str()` is `point:batch_id`, which `parse` reads.
    """

    point: FaultPoint
    batch_id: int

    def __str__(self) -> str:
        return f"{self.point.value}:{self.batch_id}"

    @classmethod
    def parse(cls, text: str) -> BatchPoint:
        point, _, batch_id = text.partition(":")
        return cls(FaultPoint(point), int(batch_id))


class PointRecorder(FaultInjector):
    """Records each fault point that is reached in `seen`, and crashes at `crash_at`, once."""

    def __init__(
        self, crash_at: BatchPoint | None = None, crash: Callable[[], None] | None = None
    ) -> None:
        """`crash` is called at `crash_at`; by default it raises SimulatedCrash."""
        self._crash_at = crash_at
        self._crash = crash or _crash
        self.seen: list[BatchPoint] = []

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        reached = BatchPoint(point, batch_id)
        self.record(reached)
        if reached == self._crash_at:
            self._crash_at = None
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
    reached there, because that batch has a predecessor. The result is in the order of FaultPoint.
    """
    crash_points: list[BatchPoint] = []
    for point in FaultPoint:
        if points is not None and point not in points:
            continue
        batches = list(dict.fromkeys(p.batch_id for p in reached if p.point is point))
        if batches and not every_batch:
            batches = [1] if 1 in batches else batches[:1]
        crash_points += [BatchPoint(point, batch_id) for batch_id in batches]
    return crash_points


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
