"""The event-time watermark: how late an event may be and still count."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.errors import ExecutionError

_logger = logging.getLogger(__name__)

DEFAULT_POLICY = "min"

_POLICIES: Mapping[str, Callable[[Iterable[int]], int]] = {"min": min, "max": max}


@dataclass(frozen=True)
class EventTimeStats:
    """What one watermark operator saw in a batch. The times mean nothing where `count` is 0."""

    operator_id: str
    delay_ms: int
    count: int
    max_ms: int = 0
    min_ms: int = 0
    avg_ms: float = 0.0


@dataclass(frozen=True)
class WatermarkOperator:
    """An operator that defines a watermark: what is known of it before any batch has run.

    `sources` are those below it, as they are called in progress.
    """

    operator_id: str
    column: str | None = None
    delay_ms: int | None = None
    sources: tuple[str, ...] = ()


class WatermarkTracker:
    """The watermark of a query, out of those of its operators.

    Each operator's own watermark is the latest event it ever saw, less its delay, and never goes
    back. The policy picks one of them: `min`, the slowest, loses nothing; `max` drops what is
    late by the fastest. An operator that has seen nothing counts as 0. The result never goes back
    either.
    """

    def __init__(self, policy: str, operator_ids: Iterable[str]) -> None:
        choose = _POLICIES.get(policy.lower())
        if choose is None:
            raise ExecutionError(f"Could not recognize watermark policy '{policy}'")
        self._choose = choose
        self.policy = policy.lower()
        self._operators: dict[str, int | None] = dict.fromkeys(operator_ids)
        self._global_ms = 0

    @property
    def current_watermark(self) -> int:
        return self._global_ms

    @property
    def operator_watermarks(self) -> Mapping[str, int | None]:
        """Each operator's own watermark; None where it has seen nothing in this run."""
        return dict(self._operators)

    def set_watermark(self, watermark_ms: int) -> None:
        self._global_ms = watermark_ms

    def update_watermark(self, stats: Iterable[EventTimeStats]) -> None:
        """Take in what the operators of a finished batch saw."""
        seen = list(stats)
        if not seen:
            return
        for operator in seen:
            self._update_operator(operator)
        chosen = self._choose(value or 0 for value in self._operators.values())
        if chosen > self._global_ms:
            _logger.info("Updating event-time watermark from %s to %s ms", self._global_ms, chosen)
            self._global_ms = chosen
        else:
            _logger.debug("Event time watermark didn't move: %s < %s", chosen, self._global_ms)

    def _update_operator(self, stats: EventTimeStats) -> None:
        if stats.operator_id not in self._operators:
            known = ",".join(self._operators)
            raise ExecutionError(
                f"Unknown watermark node ID: {stats.operator_id}, known IDs: [{known}]"
            )
        if stats.count > 0:
            _logger.debug("Observed event time stats %s: %s", stats.operator_id, stats)
            candidate = stats.max_ms - stats.delay_ms
            previous = self._operators[stats.operator_id]
            if previous is None or candidate > previous:
                self._operators[stats.operator_id] = candidate
