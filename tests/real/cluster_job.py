"""Two pipelines of the crash suite as an ordinary PySpark program, for a cluster.

    penstock run --master URL tests/real/cluster_job.py DIRECTORY [drain] [NAME...]

Nothing in it names Penstock or a master. `DIRECTORY/NAME` is the workspace of the
pipeline NAME; without names, both are run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.crash.pipelines import PIPELINES, RETAINED_BATCHES, Workspace

NAMES = ("windowed", "joined")

PROPERTIES = f"""\
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.log.level WARN
spark.sql.shuffle.partitions 4
spark.sql.streaming.minBatchesToRetain {RETAINED_BATCHES}
spark.sql.streaming.fileSource.log.compactInterval 4
spark.sql.streaming.fileSink.log.compactInterval 4
spark.task.maxFailures 20
spark.locality.wait 0
"""
"""Without a wait for locality, tasks and their state stores go to any executor that is free."""


def start(spark: SparkSession, directory: Path, name: str, **trigger: Any) -> Any:
    work = Workspace(directory / name)
    writer = PIPELINES[name].query(spark, work).writeStream.queryName(name).format("parquet")
    writer = writer.option("checkpointLocation", str(work.checkpoint)).trigger(**trigger)
    return writer.start(str(work.table))


def main(directory: Path, names: Sequence[str], *, drain: bool) -> None:
    spark = SparkSession.builder.getOrCreate()
    gateway: Any = spark.sparkContext._gateway
    process = getattr(gateway, "proc", None)  # spark-submit has started the JVM before Python
    if process is not None:
        (directory / "jvm.pid").write_text(str(process.pid))
    trigger = {"availableNow": True} if drain else {"processingTime": "0 seconds"}
    queries = [start(spark, directory, name, **trigger) for name in names]
    print(f"queries of {type(queries[0]).__module__}", flush=True)
    if not drain:
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    words = sys.argv[2:]
    chosen = [word for word in words if word in NAMES] or NAMES
    main(Path(sys.argv[1]), chosen, drain="drain" in words)
