"""The dimensions along which a query grows, one workload each.

A workload takes a `Bench` and a size, and returns figures of which `trigger_ms` is compared: the
median duration of a trigger, after a warm-up of the same length for both engines. It is missing
where an engine did not get that far.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import turns
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from workloads import Bench, descendants, is_whole, wait_for_batch

WARM_UP_SECONDS = 30
"""After less, the JVM still compiles code, and more sources or operators have more of it."""
MEASURED_SECONDS = 10
MEASURED = 25
START_LIMIT_SECONDS = 900
"""After this time no further queries are started."""


def trigger_ms(query: Any, first: int, count: int = MEASURED) -> float:
    """The median duration of `count` triggers from batch `first` on, when they are done.

    A trigger in which this process was paused does not count.
    """
    wait_for_batch(query, first + count - 1)
    took = [
        p.durationMs["triggerExecution"]
        for p in query.recentProgress
        if first <= p.batchId < first + count and "addBatch" in p.durationMs and is_whole(p)
    ]
    return float(statistics.median(took))


def warm_trigger_ms(query: Any) -> float:
    """The median duration of the triggers after the warm-up: of some seconds, at least `MEASURED`.

    All engines are measured for the same time.
    """
    turns.sleep(WARM_UP_SECONDS)
    first = query.lastProgress.batchId + 1
    turns.sleep(MEASURED_SECONDS)
    return trigger_ms(query, first, max(query.lastProgress.batchId - first, MEASURED))


def steady(bench: Bench, df: DataFrame, **options: Any) -> dict[str, float]:
    """Start a query, warm it up, measure it and stop it."""
    began = turns.own_time()
    query = bench.start(df, **options)
    wait_for_batch(query, 0)
    first_batch_s = turns.own_time() - began
    median = warm_trigger_ms(query)
    query.stop()
    return {"trigger_ms": median, "first_batch_s": first_batch_s, "memory_mb": memory_mb()}


def memory_mb() -> float:
    """The resident memory of this process and its children, among them the JVM."""
    kilobytes = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    kilobytes += int(line.split()[1])
    return kilobytes / 1024


def queries(bench: Bench, size: int) -> dict[str, float]:
    """`size` queries that have a batch every few seconds; also how long they start and stop."""
    began = turns.own_time()
    running: list[Any] = []
    while len(running) < size and turns.own_time() - began < START_LIMIT_SECONDS:
        name = f"q{len(running)}"
        running.append(bench.start(bench.numbers(10), name, every="5 seconds"))
    start_s = turns.own_time() - began
    if len(running) < size:
        return {"started": float(len(running)), "start_s": start_s, "memory_mb": memory_mb()}
    for query in running:
        wait_for_batch(query, 1)
    turns.sleep(WARM_UP_SECONDS)
    took = [query.lastProgress.durationMs["triggerExecution"] for query in running]
    figures = {
        "trigger_ms": float(statistics.median(took)),
        "start_s": start_s,
        "memory_mb": memory_mb(),
        "python_threads": float(threading.active_count()),
        "jvm_threads": float(_jvm_threads(bench)),
    }
    began = turns.own_time()
    stoppers = [threading.Thread(target=query.stop) for query in running]
    for thread in stoppers:
        thread.start()
    for thread in stoppers:
        thread.join()
    return {**figures, "stop_s": turns.own_time() - began}


def _jvm_threads(bench: Bench) -> int:
    factory = bench.spark._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    count: int = factory.getThreadMXBean().getThreadCount()
    return count


class WideSource(DataSource):
    """A source whose offset names as many partitions as its option `width` says."""

    @classmethod
    def name(cls) -> str:
        return "wide"

    def schema(self) -> str:
        return "partition int, value long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return WideReader(int(self.options["width"]))


class WideReader(DataSourceStreamReader):
    """Each batch advances every partition by one; its rows come from one task."""

    def __init__(self, width: int) -> None:
        self.width = width

    def initialOffset(self) -> dict[str, Any]:
        return self._offset(0)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return self._offset(start["topic"]["0"] + 1)

    def _offset(self, position: int) -> dict[str, Any]:
        return {"topic": {str(i): position for i in range(self.width)}}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(end["topic"]["0"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        yield from ((i, partition.value) for i in range(10))


def partitions(bench: Bench, size: int) -> dict[str, float]:
    """An offset of `size` partitions, as of a Kafka topic."""
    # Python workers cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    bench.spark.dataSource.register(WideSource)
    return steady(bench, bench.spark.readStream.format("wide").option("width", size).load())


def sources(bench: Bench, size: int) -> dict[str, float]:
    """A union of `size` sources."""
    return steady(bench, reduce(DataFrame.union, [bench.numbers(10) for _ in range(size)]))


def files(bench: Bench, size: int) -> dict[str, float]:
    """A directory with `size` files, of which each batch reads one."""
    folder = bench.folder / "input"
    folder.mkdir()
    for number in range(size):
        path = folder / f"{number:06d}.json"
        path.write_text(f'{{"n":{number}}}')
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    df = bench.spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(folder))
    query = bench.start(df)
    # The smallest directory is read to its end, so there is a number of batches to warm up with.
    figures = {"trigger_ms": trigger_ms(query, 60), "memory_mb": memory_mb()}
    query.stop()
    return figures


def batches(bench: Bench, size: int) -> dict[str, float]:
    """A checkpoint that keeps the log entries of `size` batches: its restart and its triggers."""
    checkpoint = bench.folder / "checkpoint-history"
    query = bench.start(bench.numbers(10), "history")
    wait_for_batch(query, 5)
    query.stop()
    _move_history(checkpoint, size)
    bench.spark.conf.set("spark.sql.streaming.minBatchesToRetain", str(10 * size + 1000))
    began = turns.own_time()
    query = bench.start(bench.numbers(10), "history")
    while not query.recentProgress:
        time.sleep(0.005)
    restart_s = turns.own_time() - began
    median = warm_trigger_ms(query)
    query.stop()
    return {"trigger_ms": median, "restart_s": restart_s, "memory_mb": memory_mb()}


def _move_history(checkpoint: Path, size: int) -> None:
    """Repeat the entries of the newest batch, so that the query seems to have run `size` times."""
    newest = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    for log in ("offsets", "commits"):
        folder = checkpoint / log
        entry = (folder / str(newest)).read_bytes()
        for path in folder.iterdir():
            if not path.name.isdigit() or int(path.name) > newest:
                path.unlink()
        for batch in range(newest + 1, size):
            (folder / str(batch)).write_bytes(entry)


def operators(bench: Bench, size: int) -> dict[str, float]:
    """`size` stateful operators, one after the other."""
    df = bench.numbers(100).withWatermark("timestamp", "5 seconds")
    for number in range(size):
        df = df.withColumn(f"key{number}", F.col("value") + number)
        df = df.dropDuplicatesWithinWatermark([f"key{number}"])
    return steady(bench, df)


def columns(bench: Bench, size: int) -> dict[str, float]:
    """`size` computed columns."""
    computed = [(F.col("value") + i).alias(f"c{i}") for i in range(size)]
    return steady(bench, bench.numbers(100).select("timestamp", "value", *computed))


@dataclass(frozen=True)
class Dimension:
    """What grows, in which sizes; QUICK leaves the last size out.

    Engines that are measured `in_turns` run beside each other, one at a time.
    """

    run: Callable[[Bench, int], dict[str, float]]
    title: str
    sizes: tuple[int, ...]
    in_turns: bool = True


DIMENSIONS = {
    "queries": Dimension(queries, "queries in one driver", (1, 10, 100, 300), in_turns=False),
    "partitions": Dimension(partitions, "partitions in an offset", (10, 100, 1_000, 10_000)),
    "sources": Dimension(sources, "sources in a union", (1, 10, 30, 100)),
    "files": Dimension(files, "files in the directory", (100, 1_000, 10_000, 100_000)),
    "batches": Dimension(batches, "batches in the logs", (100, 1_000, 10_000, 100_000)),
    "operators": Dimension(operators, "stateful operators", (1, 2, 3, 5)),
    "columns": Dimension(columns, "columns", (10, 100, 300, 1_000)),
}
