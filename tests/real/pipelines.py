"""The pipelines on real Kafka, with their expected output: the queries of the crash pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.crash.pipelines import (
    Rows,
    expected_pairs,
    expected_windows,
    joined,
    stateless,
    windowed,
    with_event_time,
)
from tests.real.feed import Feed

ROW = "id long, at long"
WINDOW = "start long, rows long, sum long"


@dataclass(frozen=True)
class Input:
    """The topics that a pipeline reads, and how many records of each a batch has at most."""

    bootstrap_servers: str
    left: str
    right: str
    at_most: int

    @classmethod
    def of(cls, feed: Feed, at_most: int) -> Input:
        return cls(feed.topics.bootstrap_servers, feed.left, feed.right, at_most)

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        """The rows of a topic, with event time."""
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.at_most)
            .load()
        )
        row = F.from_json(F.col("value").cast("string"), ROW).alias("row")
        return with_event_time(records.select(row).select("row.*"))


def rows_of_left(spark: SparkSession, input: Input) -> DataFrame:
    return stateless(input.read(spark, input.left))


def windows_as_records(spark: SparkSession, input: Input) -> DataFrame:
    """The windows as key and value, for the Kafka sink."""
    counts = windowed(input.read(spark, input.left))
    value = F.to_json(F.struct("start", "rows", "sum")).alias("value")
    return counts.select(F.col("start").cast("string").alias("key"), value)


def pairs(spark: SparkSession, input: Input) -> DataFrame:
    return joined(input.read(spark, input.left), input.read(spark, input.right))


@dataclass(frozen=True)
class Pipeline:
    """A query, and its expected output when everything that was sent is processed."""

    name: str
    query: Callable[[SparkSession, Input], DataFrame]
    expected: Callable[[Feed], Rows]


PARQUET = Pipeline("parquet", rows_of_left, lambda feed: Counter(feed.sent_left))
WINDOWS = Pipeline(
    "windows-to-kafka", windows_as_records, lambda feed: expected_windows(feed.sent_left)
)
JOINED = Pipeline("joined", pairs, lambda feed: expected_pairs(feed.sent_left, feed.sent_right))
POSTGRES = Pipeline("postgres", rows_of_left, lambda feed: Counter(feed.sent_left))

PIPELINES = (PARQUET, WINDOWS, JOINED, POSTGRES)
