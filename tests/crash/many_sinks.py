"""A program with two sinks and state that is killed: `python many_sinks.py WORK`.

It counts numbers by parity. `log` only appends, so that its file shows every call; `table` replaces
a file for each batch. The process ends when the files that were there at its start are processed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import write_stream
from penstock.testing import quiet_session


def run(spark: SparkSession, work: Path, *, parallel: bool) -> None:
    """Process the files, in this process."""
    reader = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    counts = reader.json(str(work / "in")).groupBy((F.col("n") % 2).alias("odd")).count()

    def found(df: DataFrame) -> dict[int, int]:
        return {row.odd: row["count"] for row in df.collect()}

    def append(df: DataFrame, batch_id: int) -> None:
        with (work / "log").open("a") as log:
            log.write(json.dumps([batch_id, found(df)]) + "\n")
            log.flush()
            os.fsync(log.fileno())

    def replace(df: DataFrame, batch_id: int) -> None:
        table = work / "table"
        table.mkdir(exist_ok=True)
        (table / str(batch_id)).write_text(json.dumps(found(df)))

    writer = write_stream(counts).outputMode("update").to("log", append)
    writer.to("table", replace, parallel=parallel)
    writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()


def main(work: Path, *options: str) -> None:
    """Process the files in a JVM of its own."""
    spark = quiet_session("kill many sinks", work / "spark.log", short_lived=True)
    run(spark, work, parallel="parallel" in options)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
