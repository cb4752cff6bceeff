"""Programs without state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from tests.differential.program import Input, Program
from tests.differential.programs.data import (
    CLICK_FILES,
    EVENT_FILES,
    EVENTS_AND_CLICKS,
    EVENTS_ONLY,
)
from tests.differential.programs.workers import send_by_value


def projection(source: Input) -> DataFrame:
    return source.stream().select("key", (F.col("value") * 2).alias("twice"), "time")


def filtered(source: Input) -> DataFrame:
    return source.stream().where("value > 4 AND key <> 'c'")


def exploded(source: Input) -> DataFrame:
    events = source.stream()
    return events.select("key", F.explode(F.sequence(F.lit(1), F.col("value"))).alias("n"))


def python_function(source: Input) -> DataFrame:
    shout = F.udf(lambda text: f"{text.upper()}!", "string")
    return source.stream().select(shout("key").alias("loud"), "value")


def pandas_function(source: Input) -> DataFrame:
    def squared(values: pandas.Series) -> pandas.Series:
        return values * values

    make_udf: Any = pandas_udf  # its overloads do not accept a plain function
    square = make_udf(squared, "long")
    return source.stream().select("key", square("value").alias("square"))


def map_in_pandas(source: Input) -> DataFrame:
    def odd(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
        for frame in frames:
            yield frame[frame["value"] % 2 == 1][["key", "value"]]

    return source.stream().mapInPandas(odd, "key string, value long")


def current_times(source: Input) -> DataFrame:
    return source.stream().select(
        "value",
        F.current_timestamp().alias("now"),
        F.current_date().alias("today"),
        F.localtimestamp().alias("local"),
    )


def current_times_in_nanoseconds(source: Input) -> DataFrame:
    return source.stream().selectExpr(
        "value",
        "CAST(current_timestamp(9) AS TIMESTAMP) AS now",
        "CAST(CAST(localtimestamp(9) AS TIMESTAMP_NTZ) AS TIMESTAMP) AS local",
    )


def current_time_in_condition(source: Input) -> DataFrame:
    return source.stream().where(F.col("time") < F.current_timestamp()).select("key", "value")


def temporary_view(source: Input) -> DataFrame:
    source.stream().createOrReplaceTempView("events")
    return source.spark.sql(
        "WITH large AS (SELECT * FROM events WHERE value > 2) "
        "SELECT upper(key) AS key, value + 1 AS next FROM large WHERE key <> 'd'"
    )


def union(source: Input) -> DataFrame:
    return source.stream("events").union(source.stream("clicks")).select("key", "value")


def self_union(source: Input) -> DataFrame:
    events = source.stream()
    return events.select("key").union(events.select(F.col("value").cast("string")))


def self_union_of_two_reads(source: Input) -> DataFrame:
    return source.stream().union(source.stream().where("value > 3"))


def observed(source: Input) -> DataFrame:
    seen = F.count(F.lit(1)).alias("n"), F.max("value").alias("largest")
    return source.stream().observe("seen", *seen).where("value > 4")


def with_static(source: Input, kind: str) -> DataFrame:
    rows = [("a", "Anna"), ("b", "Bert"), ("x", "Xaver")]
    names = source.spark.createDataFrame(rows, "key string, name string")
    return source.stream().join(names, "key", kind)


LATE_CLICKS = {"events": EVENT_FILES[:3], "clicks": (None, *CLICK_FILES[:2])}

PROGRAMS = (
    Program("projection", projection, EVENTS_ONLY),
    Program("filter", filtered, EVENTS_ONLY, extended=True),
    Program("explode", exploded, EVENTS_ONLY, extended=True),
    Program("python-udf", python_function, EVENTS_ONLY),
    Program("pandas-udf", pandas_function, EVENTS_ONLY),
    Program("map-in-pandas", map_in_pandas, EVENTS_ONLY, extended=True),
    Program("current-times", current_times, EVENTS_ONLY, times=("now", "today", "local")),
    Program(
        "current-times-in-nanoseconds",
        current_times_in_nanoseconds,
        EVENTS_ONLY,
        conf={"spark.sql.timestampNanosTypes.enabled": "true"},
        times=("now", "local"),
        extended=True,
    ),
    Program("current-time-in-condition", current_time_in_condition, EVENTS_ONLY, extended=True),
    Program("sql-over-temporary-view", temporary_view, EVENTS_ONLY),
    Program("union", union, EVENTS_AND_CLICKS),
    Program("union-with-late-source", union, LATE_CLICKS, rounds=3),
    Program("self-union", self_union, EVENTS_ONLY),
    Program("self-union-of-two-reads", self_union_of_two_reads, EVENTS_ONLY, extended=True),
    Program("observe", observed, EVENTS_ONLY),
    Program("stream-static-inner", lambda s: with_static(s, "inner"), EVENTS_ONLY),
    Program("stream-static-left", lambda s: with_static(s, "left"), EVENTS_ONLY, extended=True),
    Program("stream-static-semi", lambda s: with_static(s, "leftsemi"), EVENTS_ONLY, extended=True),
    Program("stream-static-anti", lambda s: with_static(s, "leftanti"), EVENTS_ONLY, extended=True),
)

send_by_value(__name__)
