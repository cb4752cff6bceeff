"""A query with restarts ends if its JVM is killed: the process can then be restarted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys

from pyspark.sql import SparkSession

from penstock import StreamingQueryException, write_stream

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()


def lose_the_jvm(df, batch_id):
    os.kill(jvm, signal.SIGKILL)
    df.count()


rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
writer = write_stream(rows).foreachBatch(lose_the_jvm).restart(backoff=0.1)
query = writer.option("checkpointLocation", sys.argv[1]).start()
try:
    query.awaitTermination(60)
except StreamingQueryException as exc:
    print(f"ended: {query.isActive}, {query.exception() is not None}")
query.stop()
sys.stdout.flush()
os._exit(0)  # PySpark waits for its JVM at the exit
"""


def test_a_query_with_restarts_ends_with_its_jvm(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "ended: False, True" in child.stdout, child.stderr
