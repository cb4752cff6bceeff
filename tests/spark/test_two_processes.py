"""Two processes on one checkpoint: one goes on, the other fails, and nothing is damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import read_stream, write_stream
from penstock.errors import ConcurrentUpdateError
from tests.streams import PATIENCE, Numbers, column, eventually, log_entries

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from penstock import PythonSource, read_stream, write_stream
from penstock.spark.java import prepare_environment

class Numbers(PythonSource):
    def schema(self): return "n long"
    def initial_offset(self): return 0
    def latest_offset(self, start, limit): return start + 1
    def get_batch(self, spark, start, end):
        return spark.range(start, end).withColumnRenamed("id", "n")

prepare_environment()
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.log.level", "OFF").getOrCreate()
writer = write_stream(read_stream(Numbers(), session)).format("parquet")
writer.option("checkpointLocation", sys.argv[1]).trigger(processingTime="200 milliseconds")
query = writer.start(sys.argv[2])
print("started", flush=True)
try:
    query.awaitTermination()
except Exception as error:
    print(type(error.__cause__).__name__, error, flush=True)
"""


def test_of_two_processes_exactly_one_goes_on(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    out = str(tmp_path / "out")
    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(checkpoint), out],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        eventually(lambda: len(log_entries(checkpoint, "commits")) > 1, "two batches there")
        rows = read_stream(Numbers(1_000_000, at_most=1), session)
        writer = write_stream(rows).format("parquet").trigger(processingTime="200 milliseconds")
        mine = writer.option("checkpointLocation", str(checkpoint)).start(out)
        eventually(lambda: not mine.isActive or other.poll() is not None, "one of them to fail")
        if mine.isActive:
            assert "ConcurrentUpdateError" in other.stdout.read()
        else:
            error = mine.exception()
            assert error is not None
            assert isinstance(error.__cause__, ConcurrentUpdateError)
            assert "Multiple streaming jobs detected for" in str(error)
        done = log_entries(checkpoint, "commits")[-1]
        eventually(lambda: log_entries(checkpoint, "commits")[-1] > done, "the other to go on")
        mine.stop()
    finally:
        other.kill()
        other.communicate(timeout=PATIENCE)
    rerun_and_check(session, checkpoint, out)


def rerun_and_check(session: SparkSession, checkpoint: Path, out: str) -> None:
    """A third run finishes what is open; every number is there once."""
    latest = log_entries(checkpoint, "offsets")[-1]
    numbers = Numbers(latest + 3, at_most=1)
    writer = write_stream(read_stream(numbers, session)).format("parquet")
    query = writer.option("checkpointLocation", str(checkpoint)).start(out)
    query.processAllAvailable()
    query.stop()
    assert column(session.read.parquet(out)) == list(range(latest + 3))
    assert log_entries(checkpoint, "commits") == log_entries(checkpoint, "offsets")


def test_an_entry_that_another_run_wrote_is_left_as_it_is(
    session: SparkSession, checkpoint: Path
) -> None:
    numbers = Numbers(1)
    writer = write_stream(read_stream(numbers, session)).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    theirs = checkpoint / "offsets" / "1"
    theirs.write_text("theirs")
    numbers.available = 2
    with pytest.raises(Exception, match="Multiple streaming jobs detected for 1"):
        query.awaitTermination()
    assert theirs.read_text() == "theirs"
    assert log_entries(checkpoint, "commits") == [0]
