"""The pipelines that are killed, and the program that runs one of them as a process.

    python -m tests.crash.pipelines PIPELINE WORKSPACE POINT:BATCH

Each writes parquet files. Those that read files take one per batch and end when the files that were
there at their start are processed; the one that reads numbers, a V2 source, ends after a number of
batches. The expected output is computed from the input without any engine. The process kills itself
at POINT of BATCH; `-` for no kill.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import write_stream
from penstock.api.quiet_session import quiet_session
from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.engine.faults import FaultPoint
from penstock.testing.kill import KillAt
from tests.streams import log_entries

ROWS_PER_FILE = 40
SECONDS_PER_FILE = 300
WINDOW_SECONDS = 600
BEGINNING = 1_700_000_000 // WINDOW_SECONDS * WINDOW_SECONDS
FAR_FUTURE = BEGINNING + 10_000_000
RETAINED_BATCHES = 2
"""So few that entries of the logs are purged in a short run, too."""
NUMBERS_PER_BATCH = 40
NUMBERS_PER_GROUP = 60
"""More than in a batch, so that a group has rows of two batches."""

Rows = Counter[tuple[int, ...]]
Row = dict[str, int]
IdAndTime = tuple[int, int]


def make_rows(number: int) -> tuple[list[Row], list[Row]]:
    """The rows of the left and of the right file with a number, the same in every run."""
    chance = random.Random(number)
    ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    start = BEGINNING + number * SECONDS_PER_FILE
    times = range(start, start + SECONDS_PER_FILE)
    left = [{"id": i, "at": chance.choice(times)} for i in ids]
    # each left row matches none, one or two of these, at most two files later
    earlier = range(max(ids[0] - 2 * ROWS_PER_FILE, 0), ids[-1] + 1)
    partners = chance.sample(earlier, ROWS_PER_FILE // 2)
    return left, [{"id": i, "at": start + chance.randrange(300)} for i in partners]


class Workspace:
    """The directories of a pipeline: two inputs, the checkpoint and the output."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.left = root / "left"
        self.right = root / "right"
        self.checkpoint = root / "checkpoint"
        self.table = root / "table"
        self.log = root / "child.log"
        for directory in (self.left, self.right):
            directory.mkdir(parents=True, exist_ok=True)

    def add_files(self, count: int) -> None:
        """Add a number of input files on either side; their rows depend on the file numbers."""
        first = len(list(self.left.glob("*.json")))
        for number in range(first, first + count):
            left, right = make_rows(number)
            self._put(self.left, number, left)
            self._put(self.right, number, right)

    def close(self) -> None:
        """Add a last row in the far future, so that the watermark passes all others."""
        number = len(list(self.left.glob("*.json")))
        for side, far_id in ((self.left, -1), (self.right, -2)):
            self._put(side, number, [{"id": far_id, "at": FAR_FUTURE}])

    def rows(self, side: Path) -> Iterator[IdAndTime]:
        """The (id, time) of the rows of a side, without the last row of `close`."""
        for path in sorted(side.glob("*.json")):
            for row in map(json.loads, path.read_text().splitlines()):
                if row["id"] >= 0:
                    yield row["id"], row["at"]

    def written(self) -> Rows:
        """The rows of the output, from the files that are in its log."""
        return written_files(self.table)

    def _put(self, side: Path, number: int, rows: list[Row]) -> None:
        hidden = self.root / f"{number:04d}.json"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        os.utime(hidden, (BEGINNING + number, BEGINNING + number))
        hidden.rename(side / hidden.name)


@dataclass(frozen=True)
class Pipeline:
    """A query, and its expected output when all input is processed.

    `batches` is the number of batches of a run whose input has no end; 0 for one that ends when its
    input is processed. `first_kill` is how many batches of such a run come before its kill, if that
    is in a batch.
    """

    name: str
    query: Callable[[SparkSession, Workspace], DataFrame]
    expected: Callable[[Workspace], Rows]
    batches: int = 0
    first_kill: int = 0


def with_event_time(rows: DataFrame) -> DataFrame:
    """Rows with the columns id and at, in seconds, with a watermark."""
    return rows.withColumn("at", F.timestamp_seconds("at")).withWatermark("at", "30 minutes")


def stateless(rows: DataFrame) -> DataFrame:
    """The rows without the last one, which only closes the windows."""
    return rows.where("id >= 0").select("id", F.unix_timestamp("at").alias("at"))


def windowed(rows: DataFrame) -> DataFrame:
    """The number of rows and the sum of their ids per window."""
    windows = rows.groupBy(F.window("at", f"{WINDOW_SECONDS} seconds"))
    return windows.agg(F.count("*").alias("rows"), F.sum("id").alias("sum")).select(
        F.unix_timestamp("window.start").alias("start"), "rows", "sum"
    )


def joined(left_rows: DataFrame, right_rows: DataFrame) -> DataFrame:
    """The pairs of rows with the same id that are at most an hour apart."""
    left, right = left_rows.alias("l"), right_rows.alias("r")
    near = "l.id = r.id AND r.at >= l.at - INTERVAL 1 HOUR AND r.at <= l.at + INTERVAL 1 HOUR"
    return left.join(right, F.expr(near)).select(
        F.col("l.id").alias("id"),
        F.unix_timestamp("l.at").alias("left_at"),
        F.unix_timestamp("r.at").alias("right_at"),
    )


def expected_windows(rows: Iterable[IdAndTime]) -> Rows:
    """The rows of `windowed`."""
    windows: dict[int, list[int]] = {}
    for number, at in rows:
        windows.setdefault(at // WINDOW_SECONDS * WINDOW_SECONDS, []).append(number)
    return Counter((start, len(ids), sum(ids)) for start, ids in windows.items())


def expected_pairs(left: Iterable[IdAndTime], right: Iterable[IdAndTime]) -> Rows:
    """The rows of `joined`."""
    times = dict(left)
    return Counter((number, times[number], at) for number, at in right)


def groups(spark: SparkSession) -> DataFrame:
    """The groups of consecutive numbers, each at its first number."""
    numbers = spark.readStream.format("rate-micro-batch").option("numPartitions", 2)
    rows = numbers.option("rowsPerBatch", NUMBERS_PER_BATCH).load()
    return rows.selectExpr(f"value div {NUMBERS_PER_GROUP} as id").dropDuplicates(["id"])


def expected_groups(work: Workspace) -> Rows:
    """The rows of `groups` up to the newest planned batch."""
    numbers = 0
    if planned := log_entries(work.checkpoint, "offsets"):
        offset = (work.checkpoint / "offsets" / str(planned[-1])).read_text().splitlines()[-1]
        numbers = json.loads(offset)["offset"]
    return Counter(
        (number // NUMBERS_PER_GROUP,) for number in range(0, numbers, NUMBERS_PER_GROUP)
    )


def written_files(table: Path) -> Rows:
    """The rows of the files that are in the log of Spark's file sink."""
    log = CompactibleLog.scan(table / "_spark_metadata")
    missing = log.missing_up_to(log.newest)
    if missing:
        raise AssertionError(f"the log of the sink lacks {missing}")
    rows: Rows = Counter()
    for number in sorted(log.files, reverse=True):
        for entry in log.entries(number):
            file = entry["path"].removeprefix("file://")
            table_of_file = pyarrow.parquet.ParquetFile(file).read()
            rows.update(tuple(row.values()) for row in table_of_file.to_pylist())
        if log.is_compact(number):
            break
    return rows


def _read(spark: SparkSession, side: Path) -> DataFrame:
    reader = spark.readStream.schema("id long, at long").option("maxFilesPerTrigger", 1)
    return with_event_time(reader.json(str(side)))


PIPELINES = {
    pipeline.name: pipeline
    for pipeline in (
        Pipeline(
            "stateless",
            lambda spark, work: stateless(_read(spark, work.left)),
            lambda work: Counter(work.rows(work.left)),
        ),
        Pipeline(
            "windowed",
            lambda spark, work: windowed(_read(spark, work.left)),
            lambda work: expected_windows(work.rows(work.left)),
        ),
        Pipeline(
            "joined",
            lambda spark, work: joined(_read(spark, work.left), _read(spark, work.right)),
            lambda work: expected_pairs(work.rows(work.left), work.rows(work.right)),
        ),
        # The kill is in a batch whose optimized plan is that of an earlier one.
        Pipeline(
            "numbers",
            lambda spark, work: groups(spark),
            expected_groups,
            batches=8,
            first_kill=4,
        ),
    )
}

CONF = {
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED_BATCHES),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # So that the logs of source and sink are compacted even in a short run.
    "spark.sql.streaming.fileSource.log.compactInterval": "4",
    "spark.sql.streaming.fileSink.log.compactInterval": "4",
}


def run_pipeline(spark: SparkSession, name: str, work: Workspace, kill_at: str = "-") -> None:
    """Run a pipeline on the available input, in this process, until the end or the kill."""
    pipeline = PIPELINES[name]
    writer = write_stream(pipeline.query(spark, work)).format("parquet")
    writer.option("checkpointLocation", str(work.checkpoint))
    if not pipeline.batches:
        writer.trigger(availableNow=True)
    if kill_at != "-":
        point, _, batch_id = kill_at.partition(":")
        writer.inject_faults(KillAt(FaultPoint(point), int(batch_id)))
    query = writer.start(str(work.table))
    if pipeline.batches:
        query.stop_after(batches=pipeline.batches)
    query.awaitTermination()


def main(name: str, work: Workspace, kill_at: str) -> None:
    """Run a pipeline in a JVM of its own."""
    spark = quiet_session(
        f"crash {name}", work.log, {"spark.log.level": "ERROR", **CONF}, short_lived=True
    )
    run_pipeline(spark, name, work, kill_at)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Workspace(Path(sys.argv[2])), sys.argv[3])
