"""Programs that join two streams."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_AND_CLICKS, EVENTS_ONLY, ROCKSDB, STATE_IDS

CONDITION = "e.key = c.key AND c.time BETWEEN e.time AND e.time + INTERVAL 10 SECONDS"


def within_ten_seconds(kind: str) -> Callable[[Input], DataFrame]:
    """Events joined with the clicks on the same key in the ten seconds after them."""

    def build(source: Input) -> DataFrame:
        events = source.stream("events").withWatermark("time", "10 seconds").alias("e")
        clicks = source.stream("clicks").withWatermark("time", "5 seconds").alias("c")
        joined = events.join(clicks, F.expr(CONDITION), kind)
        if kind == "leftsemi":
            return joined
        return joined.selectExpr("e.key", "e.value", "c.key AS click_key", "c.value AS click")

    return build


def for_ever(source: Input) -> DataFrame:
    clicks = source.stream("clicks").selectExpr("key", "value AS click")
    return source.stream("events").join(clicks, "key")


def by_window(source: Input) -> DataFrame:
    window = F.window("time", "10 seconds")
    events = source.stream("events").withWatermark("time", "10 seconds")
    clicks = source.stream("clicks").withWatermark("time", "10 seconds")
    left = events.select(window, "key", "value")
    right = clicks.select(window, "key", F.col("value").alias("click"))
    return left.join(right, ["window", "key"], "leftouter")


def with_itself(source: Input) -> DataFrame:
    events = source.stream()
    pairs = events.alias("l").join(events.alias("r"), F.expr("l.key = r.key AND l.value < r.value"))
    return pairs.selectExpr("l.key", "l.value AS smaller", "r.value AS larger")


def then_aggregated(source: Input) -> DataFrame:
    events = source.stream("events").withWatermark("time", "10 seconds").alias("e")
    clicks = source.stream("clicks").withWatermark("time", "5 seconds").alias("c")
    joined = events.join(clicks, F.expr(CONDITION)).selectExpr("e.time AS time", "c.value AS click")
    return joined.groupBy(F.window("time", "10 seconds")).agg(F.sum("click").alias("clicks"))


def _joins() -> tuple[Program, ...]:
    kinds = {
        "inner": "inner",
        "left": "leftouter",
        "right": "rightouter",
        "full": "fullouter",
        "semi": "leftsemi",
    }
    return tuple(
        Program(
            f"join-{name}",
            within_ten_seconds(kind),
            EVENTS_AND_CLICKS,
            stateful=True,
            extended=name != "left",
        )
        for name, kind in kinds.items()
    )


PROGRAMS = (
    *_joins(),
    Program("join-without-watermark", for_ever, EVENTS_AND_CLICKS, stateful=True, extended=True),
    Program("join-on-window-left", by_window, EVENTS_AND_CLICKS, stateful=True, extended=True),
    Program("join-with-itself", with_itself, EVENTS_ONLY, stateful=True, extended=True),
    Program("join-then-window", then_aggregated, EVENTS_AND_CLICKS, stateful=True, extended=True),
    Program(
        "join-left-rocksdb",
        within_ten_seconds("leftouter"),
        EVENTS_AND_CLICKS,
        conf=ROCKSDB,
        stateful=True,
        extended=True,
    ),
    Program(
        "join-left-state-ids",
        within_ten_seconds("leftouter"),
        EVENTS_AND_CLICKS,
        conf=STATE_IDS,
        stateful=True,
        since="4.0",
        extended=True,
    ),
)
