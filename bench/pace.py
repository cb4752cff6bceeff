"""Durations of batches with `pace()` and with a fixed limit on Spark's engine, drawn in one plot.

    python -m bench.pace docs/images/pace.png
    python -m tests.real.with_kafka -m bench.pace docs/images/pace-kafka.png

Both engines read the same rows, from files or, in the second form, from a Kafka topic. The sink
takes a time for each row, which is ten times as long for the second part of the rows. The fixed
limit is right for the first part. The time is slept, so the shape of the plot does not depend on
the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.testing import quiet_session

TARGET_SECONDS = 5.0
SECONDS_PER_ROW = 0.002
CHANGE = 10
CHEAP_ROWS = 55_000
DEAR_ROWS = 5_500
ROWS_PER_FILE = 25
FIXED_ROWS = 2_000
"""The fixed limit, in rows."""

PARTITIONS = 2
"""Of the Kafka topic."""

Point = tuple[float, float]
"""When a batch ended, in seconds from the start, and how long it took."""


class Input(Protocol):
    """Rows with the column `factor`, 1 at first, then `CHANGE`."""

    fixed_limit: tuple[str, int]
    """The option of the source, and its value, that limit a batch to `FIXED_ROWS`."""

    def write(self, spark: SparkSession) -> None: ...

    def read(self, spark: SparkSession, **options: int) -> DataFrame:
        """The rows as a stream."""


class FileInput:
    fixed_limit = ("maxFilesPerTrigger", FIXED_ROWS // ROWS_PER_FILE)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, spark: SparkSession) -> None:
        self._folder.mkdir()
        for number in range((CHEAP_ROWS + DEAR_ROWS) // ROWS_PER_FILE):
            factor = 1 if number * ROWS_PER_FILE < CHEAP_ROWS else CHANGE
            row = f'{{"factor": {factor}}}\n'
            (self._folder / f"{number:05d}.json").write_text(row * ROWS_PER_FILE)

    def read(self, spark: SparkSession, **options: int) -> DataFrame:
        return spark.readStream.schema("factor int").options(**options).json(str(self._folder))


class KafkaInput:
    fixed_limit = ("maxOffsetsPerTrigger", FIXED_ROWS)
    topic = "rows"

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = {"kafka.bootstrap.servers": bootstrap_servers}

    def write(self, spark: SparkSession) -> None:
        from tests.real.topics import Topics  # needs the client of Kafka, which files do not

        Topics(self._servers["kafka.bootstrap.servers"]).create(self.topic, PARTITIONS)
        for factor, rows in ((1, CHEAP_ROWS), (CHANGE, DEAR_ROWS)):
            records = spark.range(rows).selectExpr(
                f"CAST(id % {PARTITIONS} AS INT) AS partition", f"'{factor}' AS value"
            )
            kafka = records.write.format("kafka").options(**self._servers)
            kafka.option("topic", self.topic).save()

    def read(self, spark: SparkSession, **options: int) -> DataFrame:
        kafka = spark.readStream.format("kafka").options(**self._servers, **options)
        records = kafka.option("subscribe", self.topic).option("startingOffsets", "earliest").load()
        return records.selectExpr("CAST(CAST(value AS STRING) AS INT) AS factor")


def slow_sink(df: DataFrame, batch_id: int) -> None:
    [(total,)] = df.selectExpr("coalesce(sum(factor), 0)").collect()
    time.sleep(int(total) * SECONDS_PER_ROW)


def measure(start: Callable[[], Any]) -> list[Point]:
    began = time.monotonic()
    points: list[Point] = []
    query = start()
    query.awaitTermination()
    for record in query.recentProgress:
        if record.numInputRows:
            seconds = record.durationMs["triggerExecution"] / 1000
            points.append(((points[-1][0] if points else 0.0) + seconds, seconds))
    print(f"{len(points)} batches in {time.monotonic() - began:.0f} s", flush=True)
    return points


def run(spark: SparkSession, rows: Input) -> tuple[list[Point], list[Point]]:
    slow_sink(spark.range(1).selectExpr("1 AS factor"), -1)  # warms up
    option, limit = rows.fixed_limit
    return (
        measure(
            lambda: (
                penstock.write_stream(rows.read(spark))
                .pace(f"{TARGET_SECONDS:g} seconds")
                .foreachBatch(slow_sink)
                .trigger(availableNow=True)
                .start()
            )
        ),
        measure(
            lambda: (
                rows.read(spark, **{option: limit})
                .writeStream.foreachBatch(slow_sink)
                .trigger(availableNow=True)
                .start()
            )
        ),
    )


def near(points: list[Point], share: float = 0.25) -> float:
    """The share of the batches after the tenth, without the last, within 25% of the target."""
    later = [seconds for _, seconds in points[10:-1]]
    return sum(abs(one - TARGET_SECONDS) <= share * TARGET_SECONDS for one in later) / len(later)


def draw(paced: list[Point], fixed: list[Point], limit: str, path: str) -> None:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.axhspan(0.75 * TARGET_SECONDS, 1.25 * TARGET_SECONDS, color="0.9", label="target ± 25%")
    axes.plot(
        *zip(*fixed, strict=True),
        "o--",
        color="#c44",
        label=f"Spark, {limit}",
    )
    axes.plot(
        *zip(*paced, strict=True),
        "o-",
        ms=4,
        color="#077",
        label=f'Penstock, pace("{TARGET_SECONDS:g} seconds")',
    )
    axes.set(xlabel="seconds since the start", ylabel="duration of a batch (s)", yscale="log")
    axes.set_yticks(ticks := [0.5, 1, 2, 5, 10, 20, 50], labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(path, dpi=110)


def main(path: str) -> None:
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    with tempfile.TemporaryDirectory() as folder:
        rows: Input = KafkaInput(servers) if servers else FileInput(Path(folder) / "in")
        jars = {"spark.jars": os.environ["SPARK_JARS"]} if servers else {}
        spark = quiet_session("pace", os.devnull, jars)
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1000)
        rows.write(spark)
        paced, fixed = run(spark, rows)
        spark.stop()
    print(f"within 25%: paced {near(paced):.0%}, fixed limit {near(fixed):.0%}")
    draw(paced, fixed, "{}={}".format(*rows.fixed_limit), path)


if __name__ == "__main__":
    main(*sys.argv[1:])
