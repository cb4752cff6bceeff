"""The event-time watermark of a query."""

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
    """The event times that one watermark operator saw in a batch; undefined if `count` is 0."""

    operator_id: str
    delay_ms: int
    count: int
    max_ms: int = 0
    min_ms: int = 0
    avg_ms: float = 0.0


@dataclass(frozen=True)
class WatermarkOperator:
    """A description of an operator that defines a watermark, known before any batch has run.

    `sources` are the descriptions, as in progress, of the sources below it in the plan.
    """

    operator_id: str
    column: str | None = None
    delay_ms: int | None = None
    sources: tuple[str, ...] = ()


class WatermarkTracker:
    """Computes the watermark of a query from those of its operators.

    The watermark of an operator is the latest event time it has seen, minus its delay. The policy
    chooses among them: with `min` no input loses events because another is ahead; with `max`
    events that are late by the fastest input are dropped. An operator that has seen no event counts
    as 0. Neither an operator's watermark nor the chosen one ever decreases.
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
        """The watermark of each operator; None if it has seen no event in this run."""
        return dict(self._operators)

    def set_watermark(self, watermark_ms: int) -> None:
        self._global_ms = watermark_ms

    def update_watermark(self, stats: Iterable[EventTimeStats]) -> None:
        """Update with the statistics of a finished batch."""
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
