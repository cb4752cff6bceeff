"""A job for another process: copies parquet files on S3 with a file source and a file sink.

    python parquet_job.py HOME SETTINGS

Reads one file of `HOME/in` per batch, writes to `HOME/out`, with its checkpoint in
`HOME/checkpoint`, until no file is left. SETTINGS is a JSON object with the settings of the
session. Prints `started`, and `done` at the end.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from penstock import StreamingQuery, write_stream
from penstock.spark.jvm.java_home import prepare_environment


def start_copy(session: SparkSession, home: str) -> StreamingQuery:
    """Start the query in a session."""
    rows = session.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    writer = write_stream(rows.parquet(f"{home}/in")).format("parquet").trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{home}/checkpoint").start(f"{home}/out")


def main() -> None:
    home, settings = sys.argv[1:]
    prepare_environment()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    query = start_copy(builder.config("spark.log.level", "OFF").getOrCreate(), home)
    print("started", flush=True)
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
