"""The file source: every format, its read limits, and its log after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import write_stream
from tests.streams import LineFiles, column, log_entries, logged_offsets, put_file

FORMATS = ["text", "csv", "json", "parquet", "orc"]


def run_to_parquet(df: DataFrame, checkpoint: Path, out: Path) -> list[int]:
    """Process all available input. Returns the number of input rows of each batch."""
    writer = write_stream(df).format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(out))
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_a_start_has_the_schema_that_was_inferred_for_the_dataframe(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    session.conf.set("spark.sql.streaming.schemaInference", "true")
    (tmp_path / "in").mkdir()
    put_file(tmp_path / "in", "a.json", '{"n": 1}', 1)
    stream = session.readStream.json(str(tmp_path / "in"))
    put_file(tmp_path / "in", "b.json", '{"m": "text", "n": 2}', 2)
    assert run_to_parquet(stream, checkpoint, tmp_path / "out") == [2]
    assert column(session.read.parquet(str(tmp_path / "out")), "n") == [1, 2]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_read_file_by_file(
    session: SparkSession, tmp_path: Path, checkpoint: Path, format: str
) -> None:
    source = str(tmp_path / "in")
    for start in (0, 10, 20):
        rows = session.range(start, start + 10).select(F.col("id").cast("string").alias("value"))
        rows.coalesce(1).write.format(format).mode("append").save(source)
    stream = (
        session.readStream.format(format)
        .schema("value string")
        .option("maxFilesPerTrigger", 1)
        .load(source)
    )
    assert run_to_parquet(stream, checkpoint, tmp_path / "out") == [10, 10, 10]
    written = column(session.read.parquet(str(tmp_path / "out")))
    assert sorted(map(int, written)) == list(range(30))
    assert [logged_offsets(checkpoint, n) for n in range(3)] == [
        [{"logOffset": n}] for n in range(3)
    ]


@pytest.mark.since("4.0", "maxBytesPerTrigger")
def test_max_bytes_per_trigger_bounds_a_batch(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    for name in "abcdef":
        files.add(name * 100)
    reader = session.readStream.option("maxBytesPerTrigger", 200)
    rows = run_to_parquet(reader.text(str(files.directory)), checkpoint, tmp_path / "out")
    assert rows == [2, 2, 2]
    assert column(session.read.parquet(str(tmp_path / "out"))) == sorted(files.lines)


def test_without_a_limit_one_batch_takes_every_file(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    for name in "abc":
        files.add(name)
    reader = session.readStream
    assert run_to_parquet(reader.text(str(files.directory)), checkpoint, tmp_path / "out") == [3]


def test_once_takes_every_file_whatever_the_limit_and_says_so(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = LineFiles(tmp_path / "in")
    for name in "abc":
        files.add(name)
    query = write_stream(files.stream(session)).format("noop").trigger(once=True).start()
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress] == [3]
    assert "is ignored when Trigger.Once is used" in caplog.text


def test_a_restart_reads_only_the_files_that_are_new(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    assert run_to_parquet(files.stream(session), checkpoint, tmp_path / "out") == [1]
    files.add("b")
    files.add("c")
    assert run_to_parquet(files.stream(session), checkpoint, tmp_path / "out") == [1, 1]
    assert run_to_parquet(files.stream(session), checkpoint, tmp_path / "out") == []
    assert column(session.read.parquet(str(tmp_path / "out"))) == ["a", "b", "c"]
    assert log_entries(checkpoint, "commits") == [0, 1, 2]


def test_the_files_that_were_read_are_in_the_source_s_own_log(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    run_to_parquet(files.stream(session), checkpoint, tmp_path / "out")
    entry = (checkpoint / "sources" / "0" / "0").read_text().splitlines()
    assert entry[0] == "v1"
    assert json.loads(entry[1])["path"].endswith("/in/0000.txt")


def test_the_metadata_column_names_each_row_s_file(session: SparkSession, tmp_path: Path) -> None:
    files = LineFiles(tmp_path / "in")
    files.add("a")
    files.add("b")
    named = files.stream(session).select("value", F.col("_metadata.file_name").alias("file"))
    writer = write_stream(named).format("memory").queryName("file_names")
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = {row.value: row.file for row in session.table("file_names").collect()}
    assert rows == {"a": "0000.txt", "b": "0001.txt"}


def test_partition_directories_are_columns(session: SparkSession, tmp_path: Path) -> None:
    for number, day in enumerate(("mon", "tue")):
        directory = tmp_path / "in" / f"day={day}"
        directory.mkdir(parents=True)
        put_file(directory, "0.json", json.dumps({"n": number}), number)
    stream = session.readStream.schema("n int, day string").json(str(tmp_path / "in"))
    writer = write_stream(stream).format("memory").queryName("by_day")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert {(row.n, row.day) for row in session.table("by_day").collect()} == {
        (0, "mon"),
        (1, "tue"),
    }


@pytest.mark.parametrize(("interval", "deletes"), [(3, True), (4, True), (3, False)])
def test_expired_entries_of_both_logs_are_deleted_at_compactions(
    session: SparkSession, tmp_path: Path, interval: int, deletes: bool
) -> None:
    """Afterwards there are the same files as with Spark's engine, which deletes more often."""
    _configure_file_logs(session, interval, retained=2 * interval, deletes=deletes)
    files = LineFiles(tmp_path / "in")
    for number in range(4 * interval + 1):
        files.add(str(number))
    stream = session.readStream.option("maxFilesPerTrigger", 1).text(str(files.directory))
    left = {}
    for engine, writer in (("spark", stream.writeStream), ("penstock", write_stream(stream))):
        out, checkpoint = tmp_path / engine / "out", tmp_path / engine / "checkpoint"
        query = writer.format("parquet").option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start(str(out)).awaitTermination()
        assert column(session.read.parquet(str(out))) == sorted(files.lines)
        left[engine] = [_names(checkpoint / "sources" / "0"), _names(out / "_spark_metadata")]
    assert left["penstock"] == left["spark"]
    assert [("0" in names) for names in left["spark"]] == [not deletes] * 2


def test_file_logs_that_keep_one_compaction_survive_moves_between_the_engines(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    """From the second compaction alone, a start infers twice the interval."""
    _configure_file_logs(session, 3, retained=2)
    files, out = LineFiles(tmp_path / "in"), str(tmp_path / "out")
    stream = session.readStream.option("maxFilesPerTrigger", 1).text(str(files.directory))
    for run in range(8):
        files.add(f"a{run}")
        files.add(f"b{run}")
        writer = stream.writeStream if run % 2 else write_stream(stream)
        query = writer.format("parquet").option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start(out).awaitTermination()
        assert column(session.read.parquet(out)) == sorted(files.lines)


def _configure_file_logs(
    session: SparkSession, interval: int, retained: int, *, deletes: bool = True
) -> None:
    for log in ("fileSource", "fileSink"):
        session.conf.set(f"spark.sql.streaming.{log}.log.compactInterval", str(interval))
        session.conf.set(f"spark.sql.streaming.{log}.log.cleanupDelay", "0")
        session.conf.set(f"spark.sql.streaming.{log}.log.deletion", str(deletes).lower())
    session.conf.set("spark.sql.streaming.minBatchesToRetain", str(retained))


def _names(log: Path) -> list[str]:
    return sorted(path.name for path in log.iterdir() if not path.name.startswith("."))
