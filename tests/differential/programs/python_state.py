"""Programs with stateful functions and processors in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.differential.program import Aspect, Input, Program
from tests.differential.programs.data import (
    EVENTS_ONLY,
    NO_EMPTY_BATCHES,
    ROCKSDB,
    STATE_IDS,
)
from tests.differential.programs.workers import send_by_value

OUTPUT = "key STRING, total LONG, remark STRING"
TTL_MS = 3_600_000


def output(key: Any, total: int, remark: str) -> pandas.DataFrame:
    return pandas.DataFrame({"key": [key], "total": [total], "remark": [remark]})


# applyInPandasWithState


def running_total(timeout: str) -> Callable[[Input], DataFrame]:
    def update(
        key: Any, frames: Iterator[pandas.DataFrame], state: GroupState
    ) -> Iterator[pandas.DataFrame]:
        before = state.getOption
        total = before[0] if before is not None else 0
        if state.hasTimedOut:
            state.remove()
            yield output(key[0], total, "timed out")
            return
        total += sum(int(frame["value"].sum()) for frame in frames)
        state.update((total,))
        if timeout == "EventTimeTimeout":
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 0) + 5_000)
        elif timeout == "ProcessingTimeTimeout":
            state.setTimeoutDuration(1)
        yield output(key[0], total, "updated")

    def build(source: Input) -> DataFrame:
        events = source.stream()
        if timeout == "EventTimeTimeout":
            events = events.withWatermark("time", "10 seconds")
        groups = events.groupBy("key")
        return groups.applyInPandasWithState(update, OUTPUT, "total LONG", "update", timeout)

    return build


# transformWithState


class Total(StatefulProcessor):
    """Keeps the sum of the values so far; supports an initial state."""

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
    """The same with rows instead of pandas."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        before = self._total.get() if self._total.exists() else None
        total = (before[0] if before else 0) + sum(row.value for row in rows)
        self._total.update((total,))
        yield Row(key=key[0], total=total, remark="first" if before is None else "later")


class History(StatefulProcessor):
    """Keeps a list of all values and a map of their counts."""

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
    """Emits a key when the watermark has passed its timer."""

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
    """Registers a timer that has expired in the next batch."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from Total.handleInputRows(self, key, rows, timerValues)
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        before = self._total.get()
        yield output(key[0], before[0] if before else -1, "timer")


def transform(
    processor: type[StatefulProcessor], time_mode: str = "None", *, rows: bool = False
) -> Callable[[Input], DataFrame]:
    def build(source: Input) -> DataFrame:
        events = source.stream()
        if time_mode == "EventTime":
            events = events.withWatermark("time", "10 seconds")
        groups = events.groupBy("key")
        run = groups.transformWithState if rows else groups.transformWithStateInPandas
        return run(processor(), OUTPUT, "Update", time_mode)

    return build


def with_initial_state(source: Input) -> DataFrame:
    first = source.spark.createDataFrame([("a", 1000), ("y", 2000)], "key STRING, total LONG")
    groups = source.stream().groupBy("key")
    return groups.transformWithStateInPandas(
        Total(), OUTPUT, "Update", "None", initialState=first.groupBy("key")
    )


def _transforming(
    name: str, build: Callable[[Input], DataFrame], *variables: str, **more: Any
) -> Program:
    conf = {**ROCKSDB, **more.pop("conf", {})}
    return Program(
        f"transform-with-state-{name}",
        build,
        EVENTS_ONLY,
        "update",
        conf=conf,
        state_variables=variables,
        stateful=True,
        **more,
    )


FEW_BATCHES = {"spark.sql.streaming.minBatchesToRetain": "2"}
NO_STATE_COMPARED = frozenset({Aspect.STATE})
"""For programs whose state contains the current time."""

PROGRAMS = (
    Program(
        "pandas-with-state",
        running_total("NoTimeout"),
        EVENTS_ONLY,
        "update",
        stateful=True,
        extended=True,
    ),
    Program(
        "pandas-with-state-event-time",
        running_total("EventTimeTimeout"),
        EVENTS_ONLY,
        "update",
        stateful=True,
    ),
    Program(
        "pandas-with-state-processing-time",
        running_total("ProcessingTimeTimeout"),
        EVENTS_ONLY,
        "update",
        conf=NO_EMPTY_BATCHES,
        stateful=True,
        skip=NO_STATE_COMPARED,
        extended=True,
    ),
    _transforming("value", transform(Total), "total"),
    _transforming("rows", transform(RowTotal, rows=True), "total", extended=True),
    _transforming("list-and-map", transform(History), "values", "counts", extended=True),
    _transforming("event-timers", transform(Silence, "EventTime"), "total", extended=True),
    _transforming(
        "processing-timers",
        transform(ProcessingTimer, "ProcessingTime"),
        conf=NO_EMPTY_BATCHES,
        skip=NO_STATE_COMPARED,
        extended=True,
    ),
    _transforming(
        "ttl",
        transform(PassingTotal, "ProcessingTime"),
        conf=NO_EMPTY_BATCHES,
        skip=NO_STATE_COMPARED,
        extended=True,
    ),
    _transforming("initial-state", with_initial_state, "total", extended=True),
    _transforming(
        "over-rounds", transform(Total), "total", conf=FEW_BATCHES, rounds=4, extended=True
    ),
    _transforming("state-ids", transform(Total), "total", conf=STATE_IDS, extended=True),
)

send_by_value(__name__)
