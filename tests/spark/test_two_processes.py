"""Two processes on one checkpoint: one continues, the other fails, and nothing is damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.errors import ConcurrentUpdateError
from tests.streams import PATIENCE, LineFiles, Numbers, column, eventually, log_entries

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from penstock import PythonSource, read_stream, write_stream
from penstock.spark.jvm.java_home import prepare_environment

class Numbers(PythonSource):
    def schema(self): return "n long"
    def initial_offset(self): return 0
    def latest_offset(self, start, limit): return start + 1
    def get_batch(self, spark, start, end):
        return spark.range(start, end).withColumnRenamed("id", "n")

def write(df, batch_id):
    with open(f"{sys.argv[2]}/{batch_id}", "w") as file:
        file.write(str(sorted(row.n for row in df.collect())))

prepare_environment()
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.log.level", "OFF").getOrCreate()
writer = write_stream(read_stream(Numbers(), session)).foreachBatch(write)
query = writer.option("checkpointLocation", sys.argv[1]).start()
print("started", flush=True)
try:
    query.awaitTermination()
except Exception as error:
    print(type(error.__cause__).__name__, error, flush=True)
"""


def start_here(
    session: SparkSession, numbers: Numbers, checkpoint: Path, out: Path
) -> StreamingQuery:
    def write(df: DataFrame, batch_id: int) -> None:
        (out / str(batch_id)).write_text(str(column(df)))

    writer = write_stream(read_stream(numbers, session)).foreachBatch(write)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def test_of_two_processes_exactly_one_goes_on(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(checkpoint), str(out)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        eventually(lambda: len(log_entries(checkpoint, "commits")) > 1, "two batches there")
        mine = start_here(session, Numbers(1_000_000, at_most=1), checkpoint, out)
        eventually(lambda: not mine.isActive or other.poll() is not None, "one of them to fail")
        if mine.isActive:
            told = other.stdout.read()
        else:
            error = mine.exception()
            told = f"{type(error and error.__cause__).__name__} {error}"
        assert told.startswith("ConcurrentUpdateError")
        assert "Multiple streaming jobs detected for" in told
        done = log_entries(checkpoint, "commits")[-1]
        eventually(lambda: log_entries(checkpoint, "commits")[-1] > done, "the other to go on")
        mine.stop()
    finally:
        other.kill()
        other.communicate(timeout=PATIENCE)
    finish_and_check(session, checkpoint, out)


def finish_and_check(session: SparkSession, checkpoint: Path, out: Path) -> None:
    """A third run finishes the planned batch; each batch has exactly the number it planned."""
    latest = log_entries(checkpoint, "offsets")[-1]
    query = start_here(session, Numbers(latest + 3, at_most=1), checkpoint, out)
    query.processAllAvailable()
    query.stop()
    batches = list(range(latest + 3))
    assert log_entries(checkpoint, "offsets")[-50:] == batches[-50:]
    assert log_entries(checkpoint, "commits") == log_entries(checkpoint, "offsets")
    assert {int(path.name): path.read_text() for path in out.iterdir()} == {
        batch_id: f"[{batch_id}]" for batch_id in batches
    }


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


THEIRS = (
    'v1\n{"path":"file:///theirs","size":1,"isDir":false,"modificationTime":1,'
    '"blockReplication":1,"blockSize":1,"action":"add"}'
)


@pytest.mark.parametrize(
    ("log", "while_in", "says", "offsets"),
    [
        ("out/_spark_metadata/1", 1, "Race while writing batch 1", [0, 1]),
        ("checkpoint/sources/0/1", 0, "Multiple streaming jobs detected for 1", [0]),
    ],
)
def test_whoever_finds_an_entry_of_another_in_a_log_of_files_says_so_and_leaves_it(
    session: SparkSession,
    tmp_path: Path,
    checkpoint: Path,
    log: str,
    while_in: int,
    says: str,
    offsets: list[int],
) -> None:
    """A function that writes the entry while a batch runs imitates the other process."""
    theirs = tmp_path / log

    def write(n: int) -> int:
        if n == while_in:
            theirs.write_text(THEIRS)
        return n

    lines = LineFiles(tmp_path / "in")
    for n in range(3):
        lines.add(str(n))
    writing = F.udf(write, "long", useArrow=False)
    numbers = lines.stream(session).select(writing(F.col("value").cast("long")))
    writer = write_stream(numbers.toDF("n")).format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start(str(tmp_path / "out"))
    with pytest.raises(StreamingQueryException, match=says) as caught:
        query.awaitTermination()
    assert isinstance(caught.value.__cause__, ConcurrentUpdateError)
    assert "Please make sure only one streaming job" in str(caught.value)
    assert "at org.apache.spark" not in str(caught.value)
    assert theirs.read_text() == THEIRS
    assert log_entries(checkpoint, "offsets") == offsets
    assert log_entries(checkpoint, "commits") == [0]


RACER = """
import sys
from pyspark.sql import SparkSession
from penstock import write_stream
from penstock.spark.jvm.java_home import prepare_environment

home = sys.argv[1]
prepare_environment()
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.log.level", "OFF").getOrCreate()
lines = session.readStream.option("maxFilesPerTrigger", 1).text(home + "/in")
writer = write_stream(lines).format("parquet").trigger(availableNow=True)
writer = writer.option("checkpointLocation", home + "/checkpoint")
print("ready", flush=True)
sys.stdin.readline()
try:
    writer.start(home + "/out").awaitTermination()
    print("done", flush=True)
except Exception as error:
    print(type(error.__cause__).__name__, error, flush=True)
"""


def race(home: Path) -> list[str]:
    """Start two processes at the same moment. Returns the output of each."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        return [racer.communicate(timeout=3 * PATIENCE)[0] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait(timeout=PATIENCE)


def finish(session: SparkSession, home: Path) -> tuple[list[str], list[int]]:
    """Run the query to the end of its input. Returns the lines in the sink and the batch ids."""
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(home / "in"))
    writer = write_stream(lines).format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    writer.start(str(home / "out")).awaitTermination()
    commits = log_entries(home / "checkpoint", "commits")
    assert commits == log_entries(home / "checkpoint", "offsets") == list(range(len(commits)))
    rows = session.read.parquet(str(home / "out")).collect()
    return sorted(row.value for row in rows), commits


@pytest.mark.extended
def test_two_processes_that_race_for_one_sink_leave_every_row_in_it_once(
    session: SparkSession, tmp_path: Path
) -> None:
    """If each process is the first to write to one of the logs, both fail; nothing is damaged."""
    lines = LineFiles(tmp_path / "in")
    expected = [f"{n:02}" for n in range(6)]
    for line in expected:
        lines.add(line)

    told = race(tmp_path)
    failed = [text for text in told if text != "done\n"]
    assert failed
    for text in failed:
        assert text.startswith("ConcurrentUpdateError"), told
        assert "Please make sure only one streaming job" in text

    before = log_entries(tmp_path / "checkpoint", "commits")
    rows, batches = finish(session, tmp_path)
    assert rows == expected
    if len(failed) == 1:
        assert batches == before  # the winner left nothing to do

    lines.add("06")
    assert finish(session, tmp_path) == ([*expected, "06"], [*batches, len(batches)])
