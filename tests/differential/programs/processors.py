"""Processors of transformWithState. Spark 3.5 does not have what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.differential.programs.python_state import output
from tests.differential.programs.workers import send_by_value

TTL_MS = 3_600_000


class Total(StatefulProcessor):
    """A value: the sum so far. Knows how to take a first value over."""

    ttl_ms: int | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "total LONG", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        before = self._total.get() if self._total.exists() else None
        total = (before[0] if before else 0) + sum(int(frame["value"].sum()) for frame in rows)
        self._total.update((total,))
        yield output(key[0], total, "first" if before is None else "later")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._total.update((int(initialState["total"].iloc[0]),))

    def close(self) -> None:
        pass


class PassingTotal(Total):
    ttl_ms = TTL_MS


class RowTotal(Total):
    """The same in rows instead of pandas."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        before = self._total.get() if self._total.exists() else None
        total = (before[0] if before else 0) + sum(row.value for row in rows)
        self._total.update((total,))
        yield Row(key=key[0], total=total, remark="first" if before is None else "later")


class History(StatefulProcessor):
    """A list of all values and a map of how often each came."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getListState("values", "value LONG")
        self._counts = handle.getMapState("counts", "value LONG", "n INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            for value in sorted(int(v) for v in frame["value"]):
                self._values.appendValue((value,))
                known = self._counts.containsKey((value,))
                count = self._counts.getValue((value,)) if known else None
                self._counts.updateValue((value,), ((count[0] if count else 0) + 1,))
        values = [value[0] for value in self._values.get()]
        distinct = len(list(self._counts.iterator()))
        yield output(key[0], len(values), f"{distinct} distinct of {sorted(values)}")

    def close(self) -> None:
        pass


class Silence(Total):
    """Reports a key when the watermark is past its timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from super().handleInputRows(key, rows, timerValues)
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(max(timerValues.getCurrentWatermarkInMs(), 0) + 5_000)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        before = self._total.get()
        self._total.clear()
        remark = f"silent at {expiredTimerInfo.getExpiryTimeInMs()}"
        yield output(key[0], before[0] if before else -1, remark)


class ProcessingTimer(Silence):
    """Has a timer that the next batch finds expired."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from Total.handleInputRows(self, key, rows, timerValues)
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        before = self._total.get()
        yield output(key[0], before[0] if before else -1, "timer")


send_by_value(__name__)
