"""Programs that join."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_AND_CLICKS


def by_time(source: Input, kind: str) -> DataFrame:
    """Events with the clicks of the same key in the ten seconds after."""
    events = source.stream("events").withWatermark("time", "10 seconds").alias("e")
    clicks = source.stream("clicks").withWatermark("time", "5 seconds").alias("c")
    condition = "e.key = c.key AND c.time BETWEEN e.time AND e.time + INTERVAL 10 SECONDS"
    from pyspark.sql import functions as F

    joined = events.join(clicks, F.expr(condition), kind)
    if kind == "leftsemi":
        return joined
    return joined.selectExpr("e.key", "e.value", "c.key AS click_key", "c.value AS click")


def inner(source: Input) -> DataFrame:
    return by_time(source, "inner")


def left(source: Input) -> DataFrame:
    return by_time(source, "leftouter")


PROGRAMS = (
    Program("join-inner", inner, EVENTS_AND_CLICKS, stateful=True),
    Program("join-left", left, EVENTS_AND_CLICKS, stateful=True),
)
