"""Programs with aggregations, limits, and several stateful operators."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Aspect, Input, Program
from tests.differential.programs.data import (
    CHANGELOG,
    EVENTS_AND_CLICKS,
    EVENTS_ONLY,
    NO_EMPTY_BATCHES,
    ROCKSDB,
    ROW_CHECKSUM,
    STATE_IDS,
)

MAX_POLICY = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}


def by_key(source: Input) -> DataFrame:
    return source.stream().groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


def sorted_by_sum(source: Input) -> DataFrame:
    return by_key(source).orderBy(F.desc("sum")).limit(3)


def without_key(source: Input) -> DataFrame:
    return source.stream().agg(F.avg("value").alias("mean"), F.collect_set("key").alias("keys"))


def distinct(source: Input) -> DataFrame:
    return source.stream().select("key").distinct()


def set_difference(source: Input) -> DataFrame:
    keys = source.stream().select("key")
    return keys.subtract(source.spark.range(1).selectExpr("'a' as key"))


def set_difference_with_duplicates(source: Input) -> DataFrame:
    return source.stream().select("key").exceptAll(source.spark.sql("select 'a' as key"))


def events(source: Input) -> DataFrame:
    return source.stream().withWatermark("time", "10 seconds")


def tumbling(source: Input) -> DataFrame:
    return events(source).groupBy(F.window("time", "10 seconds")).agg(F.sum("value").alias("sum"))


def tumbling_by_key(source: Input) -> DataFrame:
    return events(source).groupBy(F.window("time", "10 seconds"), "key").count()


def sliding(source: Input) -> DataFrame:
    window = F.window("time", "20 seconds", "10 seconds")
    return events(source).groupBy(window, "key").agg(F.max("value").alias("largest"))


def sessions(source: Input) -> DataFrame:
    return events(source).groupBy(F.session_window("time", "5 seconds"), "key").count()


def sql_window(source: Input) -> DataFrame:
    events(source).createOrReplaceTempView("watched")
    return source.spark.sql(
        "SELECT window.end AS until, sum(value) AS sum FROM watched "
        "GROUP BY window(time, '10 seconds')"
    )


def two_watermarks(source: Input) -> DataFrame:
    first = source.stream("events").withWatermark("time", "10 seconds")
    second = source.stream("clicks").withWatermark("time", "2 seconds")
    return first.union(second).groupBy(F.window("time", "10 seconds")).count()


def window_of_windows(source: Input) -> DataFrame:
    small = events(source).groupBy(F.window("time", "5 seconds"), "key").count()
    large = F.window(F.window_time("window"), "20 seconds")
    return small.groupBy(large).agg(F.sum("count").alias("sum"), F.count("*").alias("windows"))


def in_no_calendar(source: Input) -> DataFrame:
    """Seconds multiplied by 1,000, as if they were milliseconds: years beyond 50,000."""
    time = (F.col("time").cast("long") * 1000).cast("timestamp")
    wrong = source.stream().withColumn("time", time).withWatermark("time", "10 seconds")
    return wrong.groupBy(F.window("time", "1 hour"), "key").count().select("key", "count")


def dedup_then_window(source: Input) -> DataFrame:
    unique = events(source).dropDuplicates(["key", "value", "time"])
    return unique.groupBy(F.window("time", "10 seconds")).count()


def limited(source: Input) -> DataFrame:
    return source.stream().limit(6)


PROGRAMS = (
    Program("aggregation-update", by_key, EVENTS_ONLY, "update", stateful=True),
    Program("aggregation-complete", by_key, EVENTS_ONLY, "complete", stateful=True),
    Program(
        "aggregation-complete-sorted",
        sorted_by_sum,
        EVENTS_ONLY,
        "complete",
        stateful=True,
        extended=True,
    ),
    Program(
        "aggregation-without-key", without_key, EVENTS_ONLY, "update", stateful=True, extended=True
    ),
    Program("distinct-update", distinct, EVENTS_ONLY, "update", stateful=True, extended=True),
    Program("set-difference", set_difference, EVENTS_ONLY, "update", stateful=True),
    Program(
        "set-difference-state-ids",
        set_difference,
        EVENTS_ONLY,
        "update",
        rounds=2,
        conf=STATE_IDS,
        stateful=True,
        since="4.0",
    ),
    Program(
        "set-difference-with-duplicates",
        set_difference_with_duplicates,
        EVENTS_ONLY,
        "update",
        stateful=True,
        extended=True,
    ),
    Program("aggregation-rocksdb", by_key, EVENTS_ONLY, "update", conf=ROCKSDB, stateful=True),
    Program("tumbling-append", tumbling, EVENTS_ONLY, stateful=True),
    Program("tumbling-update", tumbling, EVENTS_ONLY, "update", stateful=True, extended=True),
    Program("tumbling-complete", tumbling, EVENTS_ONLY, "complete", stateful=True, extended=True),
    Program("tumbling-over-rounds", tumbling, EVENTS_ONLY, rounds=3, stateful=True),
    Program(
        "times-in-no-calendar",
        in_no_calendar,
        EVENTS_ONLY,
        "update",
        skip=frozenset({Aspect.STATE}),  # Python's datetime cannot represent these years
    ),
    Program("tumbling-by-key", tumbling_by_key, EVENTS_ONLY, stateful=True, extended=True),
    Program("tumbling-changelog", tumbling, EVENTS_ONLY, conf=CHANGELOG, stateful=True),
    Program(
        "tumbling-state-ids", tumbling, EVENTS_ONLY, conf=STATE_IDS, stateful=True, since="4.0"
    ),
    Program(
        "tumbling-row-checksum",
        tumbling,
        EVENTS_ONLY,
        conf=ROW_CHECKSUM,
        stateful=True,
        extended=True,
        since="4.2",
    ),
    Program(
        "tumbling-without-empty-batches",
        tumbling,
        EVENTS_ONLY,
        conf=NO_EMPTY_BATCHES,
        stateful=True,
        extended=True,
    ),
    Program("sliding-append", sliding, EVENTS_ONLY, stateful=True, extended=True),
    Program("session-append", sessions, EVENTS_ONLY, stateful=True),
    Program("session-complete", sessions, EVENTS_ONLY, "complete", stateful=True, extended=True),
    Program("sql-window", sql_window, EVENTS_ONLY, stateful=True, extended=True),
    Program("two-watermarks-min", two_watermarks, EVENTS_AND_CLICKS, stateful=True, extended=True),
    Program(
        "two-watermarks-max", two_watermarks, EVENTS_AND_CLICKS, conf=MAX_POLICY, stateful=True
    ),
    Program("window-of-windows", window_of_windows, EVENTS_ONLY, stateful=True),
    Program("dedup-then-window", dedup_then_window, EVENTS_ONLY, stateful=True, extended=True),
    Program("limit", limited, EVENTS_ONLY, stateful=True),
)
