"""Bisection of a failing batch on Spark; the checkpoint is not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import read_stream, write_stream
from penstock.debug.bisect_report import BisectReport, BisectTrial, brief
from penstock.debug.bisection import Bisection
from penstock.errors import MissingBatchError, SurgeryRefusedError, UnsupportedError
from penstock.spark.sinks.sink_factory import SinkRequest
from tests.streams import LineFiles, Numbers

EXTENDED = pytest.mark.extended


def files_on_disk(directory: Path) -> dict[str, tuple[bytes, int]]:
    """All files except those that tasks of the failed query may still be removing."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file() and path.suffix != ".tmp"
    }


def fail_on(df: DataFrame, column: str, bad: Any) -> DataFrame:
    """The stream with an error raised for one value of a column."""
    failing = F.when(F.col(column) == bad, F.raise_error(F.lit("bad row"))).otherwise(F.col(column))
    return df.withColumn(column, failing.cast(df.schema[column].dataType))


def run_until_it_dies(df: DataFrame, checkpoint: Path, mode: str = "append") -> None:
    writer = write_stream(df).format("noop").outputMode(mode)
    with pytest.raises(penstock.StreamingQueryException):
        writer.start(checkpointLocation=str(checkpoint)).awaitTermination()


def bisect(
    df: DataFrame,
    checkpoint: Path,
    mode: str = "append",
    batch: int | None = None,
    sink: SinkRequest | None = None,
) -> BisectReport:
    before = files_on_disk(checkpoint)
    trials: list[BisectTrial] = []
    bisection = Bisection(checkpoint, checkpoint.parent / "work", batch, trials.append)
    report = bisection.run(df, sink or SinkRequest("noop", mode))
    assert files_on_disk(checkpoint) == before
    assert tuple(trials) == report.trials
    return report


def test_a_python_source_is_narrowed_to_one_row(session: SparkSession, checkpoint: Path) -> None:
    numbers = Numbers(4, at_most=16)
    good = read_stream(numbers, session)
    write_stream(good).format("noop").trigger(once=True).start(
        checkpointLocation=str(checkpoint)
    ).awaitTermination()
    numbers.available = 20
    df = fail_on(good, "n", 14)
    run_until_it_dies(df, checkpoint)
    numbers.available = 50  # newer data, which is not in the batch
    committed = list(numbers.committed)
    report = bisect(df, checkpoint)
    assert numbers.committed == committed  # nothing is committed to the source
    (found,) = report.smallest
    assert (found.start, found.end, found.size) == ("14", "15", 1)
    assert report.batch_id == 1
    assert "bad row" in (report.error or "")
    assert [(t.ranges[0].start, t.ranges[0].end, t.error is None) for t in report.trials] == [
        ("4", "20", False),
        ("4", "12", True),
        ("12", "20", False),
        ("12", "16", False),
        ("12", "14", True),
        ("14", "16", False),
        ("14", "15", False),
    ]


def test_a_batch_that_does_not_fail_again(session: SparkSession, checkpoint: Path) -> None:
    numbers = read_stream(Numbers(4), session)
    run_until_it_dies(fail_on(numbers, "n", 2), checkpoint)
    report = bisect(numbers, checkpoint)
    assert not report.is_found
    assert len(report.trials) == 1
    assert "Batch 0 does not fail when it is run again." in str(report)
    assert "--with-sink" in str(report)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("rate-micro-batch", "rowsPerBatch"), pytest.param("rate", "rowsPerSecond", marks=EXTENDED)],
)
def test_a_source_that_cannot_be_narrowed(
    session: SparkSession, checkpoint: Path, kind: str, rows: str
) -> None:
    rate = session.readStream.format(kind).option(rows, 5).load()
    df = fail_on(rate.select("value"), "value", 2)
    run_until_it_dies(df, checkpoint)
    with pytest.raises(UnsupportedError, match=r"cannot be narrowed: the source has no admission"):
        bisect(df, checkpoint)


def test_a_checkpoint_without_a_failing_batch(session: SparkSession, checkpoint: Path) -> None:
    df = read_stream(Numbers(4), session)
    write_stream(df).format("noop").trigger(once=True).start(
        checkpointLocation=str(checkpoint)
    ).awaitTermination()
    with pytest.raises(MissingBatchError, match=r"the newest, 0, is committed. Give the batch"):
        bisect(df, checkpoint)
    with pytest.raises(MissingBatchError, match="batch 3 doesn't exist"):
        bisect(df, checkpoint, batch=3)


@pytest.mark.extended
def test_the_file_that_fails_in_a_stateful_query(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    """A group fails when its count in the state is too high; the file source log is compacted."""
    session.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "2")
    files = LineFiles(tmp_path / "in")
    for name in "abcd":
        files.add(name)
    lines = session.readStream.option("maxFilesPerTrigger", 4).text(str(files.directory))
    counts = lines.groupBy("value").count()
    write_stream(counts).format("noop").outputMode("update").trigger(availableNow=True).start(
        checkpointLocation=str(checkpoint)
    ).awaitTermination()
    for names in ("e", "a", "f", "a", "g", "h", "a", "i", "b", "b"):
        files.add(names)
    everything = session.readStream.option("maxFilesPerTrigger", 100).text(str(files.directory))
    df = fail_on(everything.groupBy("value").count(), "count", 4)
    run_until_it_dies(df, checkpoint, "update")
    files.add("a")  # not in the batch
    report = bisect(df, checkpoint, "update")
    (found,) = report.smallest
    # The third "a" of the batch, which with the one in the state makes four.
    assert [Path(path).name for path in found.files] == ["0010.txt"]
    assert report.batch_id == 1
    assert "0010.txt" in str(report)
    assert "penstock checkpoint replan" in str(report)


@pytest.mark.extended
def test_a_batch_of_files_that_are_gone(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    files = LineFiles(tmp_path / "in")
    for line in ("good", "bad"):
        files.add(line)
    lines = session.readStream.text(str(files.directory))
    run_until_it_dies(fail_on(lines, "value", "bad"), checkpoint)
    [bad] = [file for file in files.directory.iterdir() if "bad" in file.read_text()]
    bad.unlink()
    report = bisect(fail_on(lines, "value", "bad"), checkpoint)
    assert not report.is_found
    assert str(report).splitlines()[1:] == [
        f"  file://{bad} does not exist any more.",
        "  It was run without the files that are gone. Put them back, and repeat.",
    ]


def test_a_committed_batch_by_its_number(session: SparkSession, checkpoint: Path) -> None:
    good = read_stream(Numbers(20, at_most=5), session)
    query = write_stream(good).format("noop").start(checkpointLocation=str(checkpoint))
    query.processAllAvailable()
    query.stop()
    report = bisect(fail_on(good, "n", 7), checkpoint, batch=1)
    assert [(one.start, one.end) for one in report.smallest] == [("7", "8")]
    assert "penstock checkpoint skip" not in str(report)


@pytest.mark.extended
def test_the_first_batch_when_there_are_more(session: SparkSession, checkpoint: Path) -> None:
    good = read_stream(Numbers(9, at_most=3), session).groupBy("n").count()
    query = write_stream(good).format("noop").outputMode("update")
    running = query.start(checkpointLocation=str(checkpoint))
    running.processAllAvailable()
    running.stop()
    report = bisect(fail_on(good, "n", 1), checkpoint, "update", batch=0)
    assert [(one.start, one.end) for one in report.smallest] == [("1", "2")]


@pytest.mark.extended
def test_a_batch_whose_state_is_no_longer_retained(session: SparkSession, checkpoint: Path) -> None:
    good = read_stream(Numbers(9, at_most=3), session).groupBy("n").count()
    writer = write_stream(good).format("noop").outputMode("update")
    running = writer.start(checkpointLocation=str(checkpoint))
    running.processAllAvailable()
    running.stop()
    for file in checkpoint.glob("state/*/*/1.*"):
        file.unlink()
    with pytest.raises(SurgeryRefusedError, match="no longer retained"):
        bisect(good, checkpoint, "update", batch=1)


@pytest.mark.extended
def test_the_report_names_the_source_of_each_range(session: SparkSession, checkpoint: Path) -> None:
    frames = [read_stream(Numbers(6), session), fail_on(read_stream(Numbers(5), session), "n", 3)]
    df = frames[0].union(frames[1])
    run_until_it_dies(df, checkpoint)
    report = bisect(df, checkpoint)
    assert [(one.start, one.end) for one in report.smallest] == [("3", "4")]


@pytest.mark.extended
def test_a_failure_that_needs_both_halves(session: SparkSession, checkpoint: Path) -> None:
    def refuse_many(batch: DataFrame, batch_id: int) -> None:
        if batch.count() > 5:
            raise ValueError("too many rows")

    df = read_stream(Numbers(16), session)
    with pytest.raises(penstock.StreamingQueryException):
        write_stream(df).foreachBatch(refuse_many).start(
            checkpointLocation=str(checkpoint)
        ).awaitTermination()
    sink = SinkRequest("foreachBatch", batch_function=refuse_many)
    report = bisect(df, checkpoint, sink=sink)
    assert [(one.start, one.end) for one in report.smallest] == [(None, "8")]
    assert report.is_together
    assert report.error == "ValueError: too many rows"
    assert "Only the whole part fails" in str(report)


@pytest.mark.extended
def test_trials_keep_the_watermark_of_the_batch(session: SparkSession, checkpoint: Path) -> None:
    """A row that is behind the others of its batch, but not behind the batch's watermark."""

    class Backwards(Numbers):
        def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
            return super().get_batch(spark, start, end).selectExpr("100000 - n * 1000 as n")

    numbers = read_stream(Backwards(16), session)
    timed = numbers.withColumn("at", F.timestamp_seconds("n")).withWatermark("at", "1 second")
    counts = timed.groupBy("at").count()
    df = fail_on(counts.withColumn("seconds", F.unix_timestamp("at")), "seconds", 100000 - 13000)
    run_until_it_dies(df, checkpoint, "update")
    report = bisect(df, checkpoint, "update")
    assert [(one.start, one.end) for one in report.smallest] == [("13", "14")]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError(), "ValueError"),
        (
            RuntimeError(
                "\n  An exception was thrown from the Python worker.\nTraceback (most recent call "
                'last):\n  File "job.py", line 3, in check\n    raise KeyError(1)\nKeyError: 1\n'
                "\n\nJVM stacktrace:\norg.apache.spark.Oh\n"
            ),
            "KeyError: 1",
        ),
    ],
)
def test_errors_in_one_line(error: Exception, line: str) -> None:
    assert brief(error) == line
