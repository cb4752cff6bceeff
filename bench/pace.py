"""Durations of batches with `pace()` and with a fixed limit on Spark's engine, drawn in one plot.

    python -m bench.pace docs/images/pace.png

Both read the same files. The sink takes a time for each row, which is ten times as long for the
second part of the files. The fixed limit is right for the first part. The time is slept, so the
shape of the plot does not depend on the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.testing import quiet_session

TARGET_SECONDS = 5.0
ROWS_PER_FILE = 25
SECONDS_PER_ROW = 0.002
CHANGE = 10
CHEAP_FILES = 2200
DEAR_FILES = 220
FIXED_LIMIT = 80

Point = tuple[float, float]
"""When a batch ended, in seconds from the start, and how long it took."""


def write_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(CHEAP_FILES + DEAR_FILES):
        factor = 1 if number < CHEAP_FILES else CHANGE
        row = f'{{"factor": {factor}}}\n'
        (folder / f"{number:05d}.json").write_text(row * ROWS_PER_FILE)


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


def run(spark: SparkSession, folder: Path) -> tuple[list[Point], list[Point]]:
    slow_sink(spark.read.schema("factor int").json(str(folder / "00000.json")), -1)  # warms up
    files = spark.readStream.schema("factor int").json(str(folder))
    fixed = spark.readStream.schema("factor int").option("maxFilesPerTrigger", FIXED_LIMIT)
    return (
        measure(
            lambda: (
                penstock.write_stream(files)
                .pace(f"{TARGET_SECONDS:g} seconds")
                .foreachBatch(slow_sink)
                .trigger(availableNow=True)
                .start()
            )
        ),
        measure(
            lambda: (
                fixed.json(str(folder))
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


def draw(paced: list[Point], fixed: list[Point], path: str) -> None:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.axhspan(0.75 * TARGET_SECONDS, 1.25 * TARGET_SECONDS, color="0.9", label="target ± 25%")
    axes.plot(
        *zip(*fixed, strict=True),
        "o--",
        color="#c44",
        label=f"Spark, maxFilesPerTrigger={FIXED_LIMIT}",
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
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder) / "in")
        spark = quiet_session("pace", os.devnull)
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1000)
        paced, fixed = run(spark, Path(folder) / "in")
        spark.stop()
    print(f"within 25%: paced {near(paced):.0%}, fixed limit {near(fixed):.0%}")
    draw(paced, fixed, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
