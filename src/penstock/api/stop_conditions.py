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
    of that number, or one whose offsets are of another form, the condition is never true, and a
    warning is logged once.
    """
    if any(number < 0 for number in offsets):
        raise ValueError(
            f"the keys of offsets in stop_after must be numbers of sources, from 0, not {offsets}"
        )
    has_warned = False

    def condition(context: BatchContext) -> bool:
        nonlocal has_warned
        sources = list(dict.fromkeys(execution.logical_plan.sources))
        known = {n: context.end_offsets.get(sources[n]) for n in offsets if n < len(sources)}
        reached = {n: json.loads(offset.json) for n, offset in known.items() if offset is not None}
        problem = _problem(offsets, reached, len(sources))
        if problem is not None and not has_warned:
            _logger.warning("stop_after(offsets=...) has no effect: %s", problem)
            has_warned = True
        return problem is None and all(
            number in reached and _is_reached(reached[number], wanted)
            for number, wanted in offsets.items()
        )

    return condition


def check_seconds(time: object) -> None:
    """Raise TypeError or ValueError unless `time` is a number of seconds, which may be 0."""
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        raise TypeError(f"time of stop_after must be a number of seconds, not {time!r}")
    if not time >= 0:
        raise ValueError(f"time of stop_after must not be negative: {time}")


def _problem(wanted: Mapping[int, Any], reached: Mapping[int, Any], sources: int) -> str | None:
    """Why the sources can never reach the wanted offsets; None if they can."""
    missing = [number for number in wanted if number >= sources]
    if missing:
        return (
            f"the query has no source {', '.join(map(str, missing))}. Its sources are numbered "
            f"from 0 to {sources - 1}."
        )
    for number, offset in reached.items():
        if _form(offset) != _form(wanted[number]):
            return (
                f"an offset of source {number} has another form than {json.dumps(wanted[number])}, "
                f"such as {json.dumps(offset)}."
            )
    return None


def _form(offset: Any) -> str:
    return "number" if isinstance(offset, (int, float)) else type(offset).__name__


def _is_reached(offset: Any, wanted: Any) -> bool:
    if _form(wanted) == "number":
        return bool(offset >= wanted)
    return bool(offset == wanted)
