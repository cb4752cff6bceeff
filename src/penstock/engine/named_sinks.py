"""The sinks of a query that has several, and the outcome of a batch in each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

SinkWriter = Callable[[str], None]
"""Writes the current batch to the sink of this name. May be called from several threads."""


@dataclass(frozen=True)
class NamedSink:
    """One of many sinks.

    A parallel sink is written on a thread of its own. If a write fails it is repeated up to
    `retries` times; the delay before the first repetition is `backoff` seconds, and doubles with
    each up to `max_backoff`. `replaces` is the former name of the sink, or a sink that it replaces.
    """

    name: str
    description: str = ""
    parallel: bool = False
    retries: int = 0
    backoff: float = 1.0
    max_backoff: float = 60.0
    replaces: str | None = None

    def delay_ms(self, failures: int) -> int:
        """The delay after the n-th failure in a row, counted from 1."""
        return int(1000 * min(self.backoff * 2 ** min(failures - 1, 64), self.max_backoff))


class SinkStatus(str, Enum):
    """The outcome of a batch in a sink."""

    WRITTEN = "written"
    DONE_BEFORE = "done before"  # an earlier run has written it
    NOT_DUE = "not due"  # the sink was added after the batch was planned


@dataclass(frozen=True)
class SinkOutcome:
    """A batch in one of many sinks. `attempts` is the number of calls of the sink.

    `started_ms` is when the first of them began, in milliseconds since the epoch.
    """

    name: str
    description: str
    status: SinkStatus
    duration_ms: int = 0
    attempts: int = 0
    started_ms: int = 0


def progress_metrics(outcomes: Sequence[SinkOutcome]) -> Mapping[str, str]:
    """The outcomes as metrics of the sink in a progress record: texts, as in Spark's JSON."""
    metrics: dict[str, str] = {}
    for outcome in outcomes:
        metrics[f"{outcome.name}.status"] = outcome.status.value
        metrics[f"{outcome.name}.durationMs"] = str(outcome.duration_ms)
        metrics[f"{outcome.name}.attempts"] = str(outcome.attempts)
    return metrics
