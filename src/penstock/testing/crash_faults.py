"""Crashes inside one process, and a record of the points that a query has passed."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.faults import FaultInjector, FaultPoint

STOP_POINTS = frozenset({FaultPoint.BEFORE_STOP_SOURCES, FaultPoint.AFTER_STOP_SOURCES})
"""Passed when a query is over: what crashes here must be the process, the query is dead."""


class SimulatedCrash(BaseException):
    """Ends a query as a crash would, as far as that is possible inside the process.

    No Exception: what handles those is not to handle this.
    """


@dataclass(frozen=True)
class Passage:
    """A point of the protocol that a query has passed, in a batch; -1 before the first."""

    point: FaultPoint
    batch_id: int

    def __str__(self) -> str:
        return f"{self.point.value}:{self.batch_id}"

    @classmethod
    def parse(cls, text: str) -> Passage:
        point, _, batch_id = text.partition(":")
        return cls(FaultPoint(point), int(batch_id))


class Passages(FaultInjector):
    """Notes each passage, and does something at one of them."""

    def __init__(
        self, strike_at: Passage | None = None, strike: Callable[[], None] | None = None
    ) -> None:
        """`strike` raises a SimulatedCrash if it is not given."""
        self._strike_at = strike_at
        self._strike = strike or _crash
        self.seen: list[Passage] = []

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        passage = Passage(point, batch_id)
        self.note(passage)
        if passage == self._strike_at:
            self._strike_at = None
            self._strike()

    def note(self, passage: Passage) -> None:
        self.seen.append(passage)


class PassagesToFile(Passages):
    """Notes the passages in a file, where they outlive the process."""

    def __init__(
        self, file: str, strike_at: Passage | None, strike: Callable[[], None] | None
    ) -> None:
        super().__init__(strike_at, strike)
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, passage: Passage) -> None:
        os.write(self._descriptor, f"{passage}\n".encode())


def _crash() -> None:
    raise SimulatedCrash("a crash that a test asked for")


def choose_strikes(
    passed: Sequence[Passage], points: Sequence[FaultPoint] | None, *, every_batch: bool
) -> list[Passage]:
    """Where to crash, of the passages of an uncrashed run, in the order of the protocol.

    Each point in every batch; or each point once, in batch 1 where it is passed there, since a
    batch with another before it has more to go wrong.
    """
    strikes: list[Passage] = []
    for point in FaultPoint:
        if points is not None and point not in points:
            continue
        batches = list(dict.fromkeys(p.batch_id for p in passed if p.point is point))
        if batches and not every_batch:
            batches = [1] if 1 in batches else batches[:1]
        strikes += [Passage(point, batch_id) for batch_id in batches]
    return strikes


def delivered_again(before: Sequence[Passage], after: Sequence[Passage]) -> tuple[int, ...]:
    """The batches that the sink had taken before the crash and took once more after it."""
    first, second = (
        {p.batch_id for p in passages if p.point is FaultPoint.AFTER_SINK}
        for passages in (before, after)
    )
    return tuple(sorted(first & second))


@contextlib.contextmanager
def crashes_not_logged() -> Iterator[None]:
    """Keep the engine from logging each crash that was asked for, with its traceback."""

    def is_no_crash(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], SimulatedCrash))

    logger = logging.getLogger("penstock.engine.stream_execution")
    logger.addFilter(is_no_crash)
    try:
        yield
    finally:
        logger.removeFilter(is_no_crash)
