"""What runs in executors or hands them something, as one program for `spark-submit`.

    spark-submit --py-files penstock.zip tests/real/feature_job.py DIRECTORY

Each function runs one query over the numbers 0 to 99 and returns what it has written. The
executors add themselves to their output, and the modules of Penstock that they have loaded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock

COUNT = 100


def in_executor() -> str:
    """The process of the executor, and the modules of Penstock that it has loaded."""
    loaded = [name for name in sys.modules if name.partition(".")[0] == "penstock"]
    return f"{os.getpid()} {','.join(loaded)}"


class Numbers(penstock.PythonSource):
    """Numbers in batches of 50."""

    def schema(self) -> str:
        return "n long"

    def initial_offset(self) -> Any:
        return 0

    def latest_offset(self, start: Any, limit: penstock.ReadLimit) -> Any:
        return min(start + 50, COUNT)

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        return spark.range(start, end, numPartitions=2).withColumnRenamed("id", "n")


class Collect(penstock.PythonSink):
    """Keeps the numbers of each batch on the driver."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        self.rows += [row.n for row in df.collect()]


class ToFiles:
    """A writer for `foreach`, which runs in the executors."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, partition_id: int, epoch_id: int) -> bool:
        name = f"{epoch_id}-{partition_id}-{os.getpid()}"
        self.file = (self.directory / name).open("a")
        return True

    def process(self, row: Any) -> None:
        print(json.dumps([row.n, in_executor()]), file=self.file)

    def close(self, error: Any) -> None:
        self.file.close()


def python_source_and_sink(spark: SparkSession, directory: Path) -> list[Any]:
    stream = penstock.read_stream(Numbers(), spark)
    sink = Collect()
    writer = penstock.write_stream(stream).sink(sink)
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    return sink.rows


def numbers(spark: SparkSession, directory: Path) -> DataFrame:
    """A stream of two files with the numbers."""
    folder = directory / "in"
    folder.mkdir()
    for part in range(2):
        rows = range(part * 50, part * 50 + 50)
        (folder / f"{part}.json").write_text("\n".join(json.dumps({"n": n}) for n in rows))
    stream = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    return stream.json(str(folder)).repartition(2)


def run(df: DataFrame, directory: Path, mode: str = "append") -> Any:
    writer = df.writeStream.outputMode(mode).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(directory / "checkpoint"))


def udf_and_foreach_batch(spark: SparkSession, directory: Path) -> list[Any]:
    rows: list[Any] = []

    def keep(batch: DataFrame, batch_id: int) -> None:
        rows.extend([row.n, row.where] for row in batch.collect())

    where = F.udf(lambda n: in_executor())
    marked = numbers(spark, directory).withColumn("where", where("n"))
    run(marked, directory).foreachBatch(keep).start().awaitTermination()
    return rows


def foreach(spark: SparkSession, directory: Path) -> list[Any]:
    out = directory / "out"
    out.mkdir()
    run(numbers(spark, directory), directory).foreach(ToFiles(out)).start().awaitTermination()
    return [json.loads(line) for file in out.iterdir() for line in file.read_text().splitlines()]


def pandas_with_state(spark: SparkSession, directory: Path) -> list[Any]:
    def count(key: tuple[int], frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        seen = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.update((seen,))
        yield pd.DataFrame({"key": [key[0]], "seen": [seen], "where": [in_executor()]})

    schema = "key long, seen long, where string"
    keyed = numbers(spark, directory).withColumn("key", F.col("n") % 4)
    counts = keyed.groupBy("key").applyInPandasWithState(
        count, schema, "seen long", "update", "NoTimeout"
    )
    query = run(counts, directory, "update").format("memory").queryName("counted").start()
    query.awaitTermination()
    best = spark.table("counted").groupBy("key").agg(F.max("seen").alias("seen"))
    where = spark.table("counted").first().where  # type: ignore[union-attr]
    return [[row.key, row.seen, where] for row in best.collect()]


def deduplicated(spark: SparkSession, directory: Path) -> list[Any]:
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    again = numbers(spark, directory).select((F.col("n") % 60).alias("n")).dropDuplicates(["n"])
    query = run(again, directory).format("parquet").start(str(directory / "out"))
    query.awaitTermination()
    return [row.n for row in spark.read.parquet(str(directory / "out")).collect()]


FEATURES = (
    python_source_and_sink,
    udf_and_foreach_batch,
    foreach,
    pandas_with_state,
    deduplicated,
)


def main(directory: Path) -> None:
    penstock.install()
    spark = SparkSession.builder.getOrCreate()
    results: dict[str, Any] = {}
    for feature in FEATURES:
        folder = directory / feature.__name__
        folder.mkdir()
        results[feature.__name__] = feature(spark, folder)
    results["penstock"] = penstock.__file__
    results["driver"] = os.getpid()
    (directory / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
