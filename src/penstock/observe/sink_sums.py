"""The totals of the sinks of a query that has many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.engine.named_sinks import SinkOutcome, SinkStatus
from penstock.errors import SinkFailedError
from penstock.observe.histogram import Histogram
from penstock.observe.snapshot import SinkSnapshot


class SinkSums:
    """The last outcome of each sink, and its totals. Written by one thread, read by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, _Sum] = {}
        self._names: tuple[str, ...] = ()

    def add(self, outcomes: Sequence[SinkOutcome]) -> None:
        """Add a batch. The sinks that it does not have are no longer part of the query."""
        if not outcomes:
            return
        with self._lock:
            self._names = tuple(outcome.name for outcome in outcomes)
            for outcome in outcomes:
                self._sums.setdefault(outcome.name, _Sum()).add(outcome)

    def add_failure(self, error: BaseException | None) -> None:
        """Add the failure of a run, if a sink was the cause."""
        if isinstance(error, SinkFailedError):
            with self._lock:
                self._sums.setdefault(error.sink, _Sum()).failures += 1
                if error.sink not in self._names:
                    self._names = (*self._names, error.sink)

    def snapshot(self, shown: Callable[[str], str]) -> tuple[SinkSnapshot, ...]:
        """The sinks in order; `shown` redacts secrets from a text."""
        with self._lock:
            return tuple(self._sums[name].snapshot(name, shown) for name in self._names)


class _Sum:
    def __init__(self) -> None:
        self.failures = 0
        self._last = SinkOutcome("", "", SinkStatus.NOT_DUE)
        self._batches = self._retries = 0
        self._seconds = Histogram()

    def add(self, outcome: SinkOutcome) -> None:
        self._last = outcome
        if outcome.status is SinkStatus.WRITTEN:
            self._batches += 1
            self._retries += outcome.attempts - 1
            self._seconds.observe(outcome.duration_ms / 1000)

    def snapshot(self, name: str, shown: Callable[[str], str]) -> SinkSnapshot:
        return SinkSnapshot(
            name=name,
            description=shown(self._last.description),
            status=self._last.status.value if self._last.name else "",
            duration_ms=self._last.duration_ms,
            attempts=self._last.attempts,
            batches=self._batches,
            retries=self._retries,
            failures=self.failures,
            seconds=self._seconds.snapshot(),
        )
