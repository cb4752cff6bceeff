"""The workloads. Each runs in its own session and returns figures."""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import turns
from engines import writer_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True)
class Sizes:
    """The sizes of the workloads: QUICK for a first impression, FULL for the published figures."""

    warm_up_seconds: int
    measured_seconds: int
    bulk_rows: int
    files: int
    idle_seconds: int
    queries: int
    growth: tuple[int, ...]


QUICK = Sizes(15, 9, 2_000_000, 120, 10, 10, (10, 100, 300))
FULL = Sizes(30, 30, 20_000_000, 1_000, 60, 20, (10, 100, 1_000, 5_000))


@dataclass
class Bench:
    """A session, an engine and a folder, for one workload."""

    spark: SparkSession
    engine: str
    folder: Path
    sizes: Sizes

    def start(self, df: DataFrame, name: str = "query", **options: Any) -> Any:
        mode = options.pop("mode", "append")
        writer = writer_for(self.engine, df).format("noop").outputMode(mode)
        checkpoint = options.pop("checkpoint", str(self.folder / f"checkpoint-{name}"))
        if options.pop("available_now", False):
            writer = writer.trigger(availableNow=True)
        if every := options.pop("every", None):
            writer = writer.trigger(processingTime=every)
        return writer.option("checkpointLocation", checkpoint).start()

    def numbers(self, rows: int = 1_000) -> DataFrame:
        """A stream of `rows` rows per batch, in two partitions; a batch is one second of time."""
        return (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", rows)
            .option("numPartitions", 2)
            .load()
        )

    def steady(self, df: DataFrame, **options: Any) -> dict[str, Any]:
        """Figures of the batches after warm-up, in milliseconds.

        All engines are warmed up and measured for the same time, not for the same number of
        batches: otherwise the JVM would have less time to compile the code of the faster engine,
        and the machine would have another speed at the end of the slower one.
        """
        query = self.start(df, **options)
        wait_for_batch(query, 0)
        turns.sleep(self.sizes.warm_up_seconds)
        first = query.lastProgress.batchId + 1
        turns.sleep(self.sizes.measured_seconds)
        query.stop()
        done = [p for p in query.recentProgress if p.batchId >= first]
        return figures([p for p in done if "addBatch" in p.durationMs])


def wait_for_batch(query: Any, batch_id: int) -> None:
    while (last := query.lastProgress) is None or last.batchId < batch_id:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.2)


def figures(progress: list[Any]) -> dict[str, Any]:
    """Medians of the time from one trigger to the next, of the overhead and of each phase.

    A trigger in which this process was paused does not count.
    """
    starts = [epoch_seconds(p.timestamp) for p in progress]
    whole = [
        (p.durationMs, (end - begin) * 1e3)
        for p, (begin, end) in zip(progress, pairwise(starts), strict=False)
        if not turns.was_paused(begin, end)
    ]
    phases = sorted({name for durations, _ in whole for name in durations})
    return {
        "trigger_ms": statistics.median(gap for _, gap in whole),
        "overhead_ms": statistics.median(d["triggerExecution"] - d["addBatch"] for d, _ in whole),
        "phases": {n: statistics.median(d.get(n, 0) for d, _ in whole) for n in phases},
    }


def epoch_seconds(timestamp: str) -> float:
    """The time of a progress record, in seconds since the epoch."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def is_whole(progress: Any) -> bool:
    """Whether this process was not paused in a trigger."""
    begin = epoch_seconds(progress.timestamp)
    return not turns.was_paused(begin, begin + progress.durationMs["triggerExecution"] / 1e3)


def stateless(bench: Bench) -> dict[str, Any]:
    return {**bench.steady(bench.numbers()), "bare_ms": bare_job(bench)}


def bare_job(bench: Bench) -> float:
    """Time of a batch job with the same rows and sink: the lower bound for every engine."""
    rows = bench.spark.range(0, 1_000, 1, 2)
    frame = rows.select(F.timestamp_millis("id").alias("timestamp"), F.col("id").alias("value"))
    times = []
    end = turns.own_time() + bench.sizes.measured_seconds
    while (began := turns.own_time()) < end:
        frame.write.format("noop").mode("append").save()
        times.append((turns.own_time() - began) * 1e3)
    return statistics.median(times[len(times) // 2 :])


def windowed(bench: Bench) -> dict[str, Any]:
    df = (
        bench.numbers()
        .withWatermark("timestamp", "10 seconds")
        .groupBy(F.window("timestamp", "5 seconds"), (F.col("value") % 10).alias("key"))
        .count()
    )
    return bench.steady(df, mode="update")


def join(bench: Bench) -> dict[str, Any]:
    left = bench.numbers().withWatermark("timestamp", "5 seconds")
    right = bench.numbers().withWatermark("timestamp", "5 seconds")
    joined = left.alias("l").join(
        right.alias("r"), F.expr("l.value = r.value and l.timestamp = r.timestamp")
    )
    return bench.steady(joined.select("l.value", "l.timestamp"))


def bulk(bench: Bench) -> dict[str, Any]:
    rows = bench.sizes.bulk_rows
    df = bench.numbers(rows).groupBy((F.col("value") % 1000).alias("key")).count()
    query = bench.start(df, mode="update")
    wait_for_batch(query, 2)
    progress = query.recentProgress[:3]
    query.stop()
    best = min(p.durationMs["triggerExecution"] for p in progress[1:])
    return {"rows_per_second": rows / best * 1e3}


def files(bench: Bench) -> dict[str, Any]:
    folder = bench.folder / "input"
    folder.mkdir()
    for number in range(bench.sizes.files):
        path = folder / f"{number:05d}.json"
        path.write_text("\n".join(json.dumps({"n": number * 10 + i}) for i in range(10)))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    df = bench.spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(folder))
    began = turns.own_time()
    query = bench.start(df, available_now=True)
    query.awaitTermination()
    total = turns.own_time() - began
    whole = [p for p in query.recentProgress if p.numInputRows and is_whole(p)]
    took = [p.durationMs["triggerExecution"] for p in whole]
    share = max(len(took) // 10, 1)
    growth = statistics.median(took[-share:]) / statistics.median(took[share : 2 * share])
    return {"total_s": total, "last_to_first": growth}


def restart(bench: Bench) -> dict[str, Any]:
    query = bench.start(bench.numbers())
    wait_for_batch(query, 105)
    query.stop()
    times = []
    for _ in range(5):
        began = turns.own_time()
        query = bench.start(bench.numbers())
        while not query.recentProgress:
            time.sleep(0.001)
        times.append((turns.own_time() - began) * 1e3)
        query.stop()
    return {"restart_ms": statistics.median(times)}


def many(bench: Bench) -> dict[str, Any]:
    queries = [bench.start(bench.numbers(), f"q{i}") for i in range(bench.sizes.queries)]
    for query in queries:
        wait_for_batch(query, 20)
    before = sum(q.lastProgress.batchId for q in queries)
    began = turns.own_time()
    turns.sleep(20)
    done = sum(q.lastProgress.batchId for q in queries) - before
    elapsed = turns.own_time() - began
    for query in queries:
        query.stop()
    return {"batches_per_second": done / elapsed}


def idle(bench: Bench) -> dict[str, Any]:
    empty = bench.folder / "empty"
    empty.mkdir()
    df = bench.spark.readStream.schema("n long").json(str(empty))
    queries = [bench.start(df, f"q{i}") for i in range(bench.sizes.queries)]
    turns.sleep(bench.sizes.warm_up_seconds)
    before = cpu_seconds()
    turns.sleep(bench.sizes.idle_seconds)
    used = cpu_seconds() - before
    for query in queries:
        query.stop()
    return {"cpu_seconds": used}


def growth(bench: Bench) -> dict[str, Any]:
    query = bench.start(bench.numbers())
    wait_for_batch(query, bench.sizes.growth[-1] + 25)
    progress = [p for p in query.recentProgress if "addBatch" in p.durationMs]
    query.stop()
    around = {
        str(at): statistics.median(
            p.durationMs["triggerExecution"]
            for p in progress[max(at - 5, 0) : at + 20]
            if is_whole(p)
        )
        for at in bench.sizes.growth
    }
    return {"trigger_ms_at": around}


def cpu_seconds() -> float:
    """CPU time of this process and of its JVM, with the processes that the JVM has started."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    total = own.ru_utime + own.ru_stime
    tick = os.sysconf("SC_CLK_TCK")
    for child in descendants(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / tick
    return total


def descendants(pid: int) -> list[int]:
    """The processes below a process. Those that end meanwhile may be left out."""
    found = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                for child in (task / "children").read_text().split():
                    found += [int(child), *descendants(int(child))]
    return found


@dataclass(frozen=True)
class Workload:
    """A measurement, the figure that is compared, and the target ratio for each peer.

    The ratio has to be at most the target, with `higher_is_better` at least the target. Engines
    that are measured `in_turns` run beside each other, one at a time; the others one after another.
    """

    run: Callable[[Bench], dict[str, Any]]
    title: str
    figure: str
    targets: tuple[float, float]
    conf: dict[str, str] = field(default_factory=dict)
    higher_is_better: bool = False
    in_turns: bool = True


WORKLOADS = {
    "stateless": Workload(stateless, "small stateless batch", "trigger_ms", (0.30, 0.70)),
    "overhead": Workload(stateless, "... without addBatch", "overhead_ms", (0.15, 0.50)),
    "windowed": Workload(windowed, "windowed aggregation, HDFS-backed", "trigger_ms", (0.4, 0.80)),
    "rocksdb": Workload(
        windowed, "windowed aggregation, RocksDB", "trigger_ms", (0.40, 0.80), ROCKSDB
    ),
    "join": Workload(join, "stream-stream join", "trigger_ms", (0.45, 0.75)),
    "bulk": Workload(
        bulk,
        "one bulk batch: rows per second",
        "rows_per_second",
        (1.0, 1.0),
        higher_is_better=True,
        in_turns=False,
    ),
    "files": Workload(files, "small files, one per trigger", "total_s", (0.33, 0.80)),
    "restart": Workload(restart, "restart with 100 batches", "restart_ms", (0.65, 0.90)),
    "many": Workload(
        many,
        "many queries: batches per second",
        "batches_per_second",
        (4.0, 1.4),
        higher_is_better=True,
    ),
    "idle": Workload(idle, "idle queries: CPU seconds", "cpu_seconds", (0.2, 0.2)),
}
