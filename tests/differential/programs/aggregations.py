"""Programs that aggregate."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_ONLY


def by_key(source: Input) -> DataFrame:
    return source.stream().groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


def by_window(source: Input, *window: str) -> DataFrame:
    events = source.stream().withWatermark("time", "10 seconds")
    return events.groupBy(F.window("time", *window)).agg(F.sum("value").alias("sum"))


def tumbling(source: Input) -> DataFrame:
    return by_window(source, "10 seconds")


PROGRAMS = (
    Program("aggregation-update", by_key, EVENTS_ONLY, "update", stateful=True),
    Program("aggregation-complete", by_key, EVENTS_ONLY, "complete", stateful=True),
    Program("tumbling-append", tumbling, EVENTS_ONLY, stateful=True),
    Program("tumbling-update", tumbling, EVENTS_ONLY, "update", stateful=True),
    Program("tumbling-complete", tumbling, EVENTS_ONLY, "complete", stateful=True),
)
