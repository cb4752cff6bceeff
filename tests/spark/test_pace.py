"""Queries whose batches have a wanted duration, on Spark and on a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import DataStreamWriter, StreamingQueryException, write_stream
from penstock.errors import PaceError
from penstock.testing import ManualClock, MemoryStream

Cost = Callable[[int, int], float]
"""The seconds of a batch, from its id and its number of rows."""

Batch = tuple[int, str, str]
"""The rows of a batch, the limit it was read with, and why."""


def paced(writer: DataStreamWriter, cost: Cost) -> list[Batch]:
    """Process all data of a query with a pace of ten seconds, on a clock that `cost` moves."""
    clock = ManualClock(0)

    def take(df: DataFrame, batch_id: int) -> None:
        clock.advance(cost(batch_id, df.count()))

    writer.pace("10 seconds").clock(clock).foreachBatch(take)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [batch_of(record) for record in query.recentProgress if record.numInputRows]


def batch_of(record: Any) -> Batch:
    metrics = record.sources[0].metrics
    limit = f"{metrics['paceLimit']} {metrics['paceUnit']}"
    return record.sources[0].numInputRows, limit, metrics["paceReason"]


def write_files(folder: Path, number: int) -> None:
    folder.mkdir()
    for name in range(number):
        (folder / f"{name:03d}.json").write_text(f'{{"n": {name}}}\n')


def files(session: SparkSession, folder: Path, **options: int) -> DataFrame:
    return session.readStream.schema("n int").options(**options).json(str(folder))


@pytest.mark.core
def test_the_number_of_files_follows_the_duration(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 30)
    source = files(session, tmp_path / "in")
    # Some time for each file, and from batch 4 on twenty times that.
    batches = paced(write_stream(source), lambda n, rows: rows * (1.4 if n < 4 else 28))
    assert batches[:7] == [
        (1, "1 files", "start"),
        (4, "4 files", "grow"),
        (7, "7 files", "grow"),
        (7, "7 files", "hold"),
        (7, "7 files", "hold"),
        (1, "1 files", "shrink"),
        (1, "1 files", "shrink"),
    ]
    assert sum(rows for rows, _, _ in batches) == 30


def test_the_limit_of_a_file_source_is_not_exceeded(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 10)
    source = files(session, tmp_path / "in", maxFilesPerTrigger=3)
    batches = paced(write_stream(source), lambda n, rows: 0)
    assert batches == [
        (1, "1 files", "start"),
        (3, "3 files", "at the job's limit"),
        (3, "3 files", "at the job's limit"),
        (3, "3 files", "at the job's limit"),
    ]


@pytest.mark.since("4.0", "maxBytesPerTrigger")
def test_a_file_source_with_a_limit_in_bytes_is_paced_in_bytes(
    session: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", 10)
    source = files(session, tmp_path / "in", maxBytesPerTrigger=16)
    batches = paced(write_stream(source), lambda n, rows: 0)
    assert {limit for _, limit, _ in batches} == {"16 bytes"}
    assert sum(rows for rows, _, _ in batches) == 10


@pytest.mark.core
def test_the_rows_of_a_python_source_follow_the_duration(session: SparkSession) -> None:
    stream = MemoryStream("n int", session)
    stream.add_data(range(12_000))
    batches = paced(write_stream(stream.to_df()), lambda n, rows: rows / 300)
    assert batches == [
        (1000, "1000 rows", "start"),
        (3000, "3000 rows", "grow"),
        (3000, "3000 rows", "hold"),
        (3000, "3000 rows", "hold"),
        (2000, "3000 rows", "hold"),
    ]


def test_a_restart_runs_a_planned_batch_as_planned(session: SparkSession, checkpoint: Path) -> None:
    stream = MemoryStream("n int", session, rows_per_batch=2500)
    stream.add_data(range(5000))

    def fail(df: DataFrame, batch_id: int) -> None:
        raise KeyError("boom")

    def writer() -> DataStreamWriter:
        return write_stream(stream.to_df()).option("checkpointLocation", str(checkpoint))

    with pytest.raises(StreamingQueryException):
        writer().foreachBatch(fail).start().awaitTermination()
    rows: dict[int, int] = {}
    paced_writer = writer().pace("10 seconds").trigger(availableNow=True)
    query = paced_writer.foreachBatch(lambda df, n: rows.update({n: df.count()})).start()
    query.awaitTermination()
    assert rows == {0: 2500, 1: 1000, 2: 1500}


def test_what_cannot_be_paced_is_refused(session: SparkSession) -> None:
    rate = session.readStream.format("rate").load()
    query = write_stream(rate).pace("10 seconds").format("noop").start()
    with pytest.raises(StreamingQueryException, match=r"RateStreamV2.*takes no read limit from"):
        query.awaitTermination()
    with pytest.raises(PaceError, match=r"Use trigger\(availableNow=True\), which reads it in"):
        write_stream(rate).pace("10 seconds").trigger(once=True).format("noop").start()
    with pytest.raises(ValueError, match="pace is 'slowly', not a duration such as"):
        write_stream(rate).pace("slowly")


def test_a_source_that_ignores_its_limit_is_warned_of(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5000).load()
    query = write_stream(rate).pace("10 seconds").format("noop").start()
    query.stop_after(batches=2)
    query.awaitTermination()
    assert "it read 5000 rows with a limit of 1000. It does not follow" in caplog.text
