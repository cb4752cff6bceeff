"""The conditions of `StreamingQuery.stop_after`."""

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
    """True after `batches` more batches. Raises ValueError if that is less than 1."""
    if batches < 1:
        raise ValueError(f"batches of stop_after must be at least 1, not {batches}")
    left = batches

    def condition(_: BatchContext) -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return condition


def after_offsets(execution: StreamExecution, offsets: Mapping[int, Any]) -> StopCondition:
    """True when each of the given sources, by number, has reached the given offset.

    A numeric offset is reached by any offset that is at least as large, any other by the offset
    with the same JSON. Raises ValueError for a negative source number. If the query has no source
    of that number, the condition is never true, and a warning is logged once.
    """
    if any(number < 0 for number in offsets):
        raise ValueError(
            f"the keys of offsets in stop_after must be numbers of sources, from 0, not {offsets}"
        )
    has_warned = False

    def condition(context: BatchContext) -> bool:
        nonlocal has_warned
        sources = list(dict.fromkeys(execution.logical_plan.sources))
        missing = [number for number in offsets if number >= len(sources)]
        if missing:
            if not has_warned:
                _logger.warning(
                    "stop_after(offsets=...) has no effect: the query has no source %s. Its "
                    "sources are numbered from 0 to %s.",
                    ", ".join(map(str, missing)),
                    len(sources) - 1,
                )
            has_warned = True
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
