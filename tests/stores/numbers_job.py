"""A job for another process: writes one number per batch to a directory, until it is killed.

    python numbers_job.py CHECKPOINT OUT SETTINGS

SETTINGS is a JSON object with the settings of the session. Prints `started`, and the error if the
query fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock import DataStreamWriter, read_stream, write_stream
from penstock.spark.jvm.java_home import prepare_environment
from tests.streams import Numbers


def writer_to(
    out: Path, session: SparkSession, numbers: Numbers, checkpoint: str
) -> DataStreamWriter:
    """A query that writes the numbers of each batch to a file of its own, replacing it."""

    def write(df: DataFrame, batch_id: int) -> None:
        (out / str(batch_id)).write_text(str(sorted(row.n for row in df.collect())))

    writer = write_stream(read_stream(numbers, session)).foreachBatch(write)
    return writer.option("checkpointLocation", checkpoint)


def main() -> None:
    checkpoint, out, settings = sys.argv[1:]
    prepare_environment()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    numbers = Numbers(1_000_000, at_most=1)
    query = writer_to(Path(out), session, numbers, checkpoint).start()
    print("started", flush=True)
    try:
        query.awaitTermination()
    except Exception as error:
        print(type(error.__cause__).__name__, error, flush=True)


if __name__ == "__main__":
    main()
