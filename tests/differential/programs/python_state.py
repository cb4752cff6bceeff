"""Programs with stateful functions and processors in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState

from tests.differential.program import Aspect, Input, Program
from tests.differential.programs.data import (
    EVENTS_ONLY,
    NO_EMPTY_BATCHES,
    ROCKSDB,
    STATE_IDS,
)
from tests.differential.programs.workers import send_by_value

OUTPUT = "key STRING, total LONG, remark STRING"


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


def transform(
    processor: str, time_mode: str = "None", *, rows: bool = False
) -> Callable[[Input], DataFrame]:
    """`processor` is the name of a class in `processors`."""

    def build(source: Input) -> DataFrame:
        from tests.differential.programs import processors

        events = source.stream()
        if time_mode == "EventTime":
            events = events.withWatermark("time", "10 seconds")
        groups = events.groupBy("key")
        run = groups.transformWithState if rows else groups.transformWithStateInPandas
        return run(getattr(processors, processor)(), OUTPUT, "Update", time_mode)

    return build


def with_initial_state(source: Input) -> DataFrame:
    from tests.differential.programs.processors import Total

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
        **{"since": "4.0", **more},
    )


ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""For programs that run often: every partition of every batch needs a Python worker."""
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
        conf=ONE_PARTITION,
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
    _transforming("value", transform("Total"), "total", conf=ONE_PARTITION),
    _transforming("rows", transform("RowTotal", rows=True), "total", extended=True),
    _transforming("list-and-map", transform("History"), "values", "counts", extended=True),
    _transforming("event-timers", transform("Silence", "EventTime"), "total", extended=True),
    _transforming(
        "processing-timers",
        transform("ProcessingTimer", "ProcessingTime"),
        conf=NO_EMPTY_BATCHES,
        skip=NO_STATE_COMPARED,
        extended=True,
    ),
    _transforming(
        "ttl",
        transform("PassingTotal", "ProcessingTime"),
        conf=NO_EMPTY_BATCHES,
        skip=NO_STATE_COMPARED,
        extended=True,
    ),
    _transforming("initial-state", with_initial_state, "total", extended=True),
    _transforming(
        "over-rounds", transform("Total"), "total", conf=FEW_BATCHES, rounds=4, extended=True
    ),
    _transforming("state-ids", transform("Total"), "total", conf=STATE_IDS, extended=True),
)

send_by_value(__name__)
