"""When a query that was told to stop after something has reached it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from penstock.engine.batch_context import BatchContext
from penstock.engine.stream_execution import StreamExecution

_logger = logging.getLogger(__name__)

StopCondition = Callable[[BatchContext], bool]


def after_batches(batches: int) -> StopCondition:
    """Holds when so many more batches are done."""
    if batches < 1:
        raise ValueError(f"stop_after takes at least one batch, not {batches}")
    left = batches

    def condition(_: BatchContext) -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return condition


def after_offsets(execution: StreamExecution, offsets: Mapping[int, Any]) -> StopCondition:
    """Holds when each of the given sources, by number, has got to the given offset.

    A number is reached by any offset that is at least that number, any other value by the offset
    with the same JSON. Raises ValueError for numbers that are none; one that the query turns out
    not to have is never reached, of which a warning tells.
    """
    if any(number < 0 for number in offsets):
        raise ValueError(f"stop_after takes the numbers of sources, from 0 on, not {offsets}")
    missing_told = False

    def condition(context: BatchContext) -> bool:
        nonlocal missing_told
        sources = list(dict.fromkeys(execution.logical_plan.sources))
        missing = [number for number in offsets if number >= len(sources)]
        if missing:
            if not missing_told:
                _logger.warning(
                    "The query runs on: stop_after waits for source %s, and there are only %s, "
                    "numbered from 0.",
                    ", ".join(map(str, missing)),
                    len(sources),
                )
            missing_told = True
            return False
        return all(
            (reached := context.end_offsets.get(sources[number])) is not None
            and _is_reached(json.loads(reached.json), wanted)
            for number, wanted in offsets.items()
        )

    return condition


def _is_reached(offset: Any, wanted: Any) -> bool:
    numbers = (int, float)
    if isinstance(offset, numbers) and isinstance(wanted, numbers):
        return offset >= wanted
    return bool(offset == wanted)
