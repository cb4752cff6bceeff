"""The quarantine on Spark: files, rows of Python sources, state, sinks, crashes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from penstock import DataStreamWriter, StreamingQueryException, read_stream, snapshots, write_stream
from penstock.checkpoint import CheckpointDirectory, LocalFiles
from penstock.checkpoint.quarantine_log import QuarantineRecord
from penstock.engine.batch_parts import Pieces
from penstock.engine.data_stream import DataStream
from penstock.engine.faults import OF_QUARANTINE, FaultInjector, FaultPoint
from penstock.engine.offsets import SerializedOffset
from penstock.engine.seam import BatchRequest
from penstock.errors import ExecutionError
from penstock.spark.replay.replayed_batch import ReplayedBatch
from penstock.spark.sinks.batch_sinks import OrdinaryFrames
from tests.streams import LineFiles, StandingNumbers, column, log_entries, query_id_of

Batches = dict[int, list[Any]]

CHECKED = "if({0} in ({1}), cast(raise_error('cannot process ' || {0}) as {2}), {0}) as {0}"


class Job:
    """A job that is started again until it does not fail."""

    def __init__(self, checkpoint: Path, rows: Callable[[], DataFrame]) -> None:
        self.checkpoint = checkpoint
        self.aside = checkpoint.parent / "aside"
        self.rows = rows
        self.batches: Batches = {}
        self.rules: dict[str, int] = {"after": 1}

    def writer(self) -> DataStreamWriter:
        return (
            write_stream(self.rows())
            .quarantine(str(self.aside), **self.rules)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )

    def take(self, df: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = column(df)

    def run(self, faults: FaultInjector | None = None) -> Any:
        writer = self.writer().foreachBatch(self.take)
        query = (writer if faults is None else writer.inject_faults(faults)).start()
        query.awaitTermination()
        return query

    def fails(self) -> str:
        with pytest.raises(StreamingQueryException) as caught:
            self.run()
        return str(caught.value)

    def record(self, batch_id: int = 0) -> QuarantineRecord | None:
        return CheckpointDirectory(LocalFiles(self.checkpoint)).quarantine.get(batch_id)

    def table(self, spark: SparkSession) -> list[Row]:
        rows = spark.read.parquet(str(self.aside))
        return rows.orderBy("batch", "part", "row").collect()


def numbers_job(session: SparkSession, checkpoint: Path, bad: str = "3", at_most: int = 8) -> Job:
    def rows() -> DataFrame:
        source = StandingNumbers(10, at_most=at_most)
        return read_stream(source, session).selectExpr(CHECKED.format("n", bad, "long"))

    return Job(checkpoint, rows)


def lines_job(session: SparkSession, checkpoint: Path, lines: LineFiles, bad: str = "'bad'") -> Job:
    def rows() -> DataFrame:
        stream = lines.stream(session, at_most=10)
        return stream.selectExpr(CHECKED.format("value", bad, "string"))

    return Job(checkpoint, rows)


# Sources.


@pytest.mark.core
def test_rows_of_a_python_source(session: SparkSession, checkpoint: Path) -> None:
    job = numbers_job(session, checkpoint, bad="3, 9")
    assert "cannot process 3" in job.fails()
    assert log_entries(checkpoint, ".penstock/failures") == [0]
    assert "cannot process 9" in job.fails()
    query = job.run()
    assert job.batches == {0: [0, 1, 2, 4, 5, 6, 7], 1: [8]}
    assert log_entries(checkpoint, "commits") == [0, 1]
    assert [json.loads((checkpoint / f"offsets/{n}").read_text().split("\n")[-1]) for n in (0, 1)]
    found = job.table(session)
    assert [(row["batch"], row["part"], json.loads(row["row"])) for row in found] == [
        (0, 0, {"n": 3}),
        (1, 0, {"n": 9}),
    ]
    [first, _] = found
    assert first["query"] == query_id_of(checkpoint)
    assert (first["start_offset"], first["end_offset"], first["file"]) == ("3", "4", None)
    assert "cannot process 3" in first["error"]
    assert first["quarantined_at"] is not None
    [progress] = [p for p in query.recentProgress if p.batchId == 1]
    assert progress.sources[0].metrics["quarantinedParts"] == "1"
    assert progress.sources[0].numInputRows == 1
    [seen] = [seen for seen in snapshots() if seen.id == query_id_of(checkpoint)]
    assert seen.totals.quarantined_parts == 2


@pytest.mark.core
def test_files_are_left_out_and_copied(
    session: SparkSession, checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = LineFiles(tmp_path / "in put")
    for texts in (["a", "b"], ["bad", "c"], ["d"], ["e", "bad"], ["f"]):
        lines.add(*texts)
    job = lines_job(session, checkpoint, lines)
    job.fails()
    with caplog.at_level(logging.WARNING, "penstock"):
        query = job.run()
    assert job.batches == {0: ["a", "b", "d", "f"]}
    found = job.table(session)
    assert [(Path(row["file"]).name, row["file_size"], row["row"]) for row in found] == [
        ("0001.txt", 5, None),
        ("0003.txt", 5, None),
    ]
    copies = [Path(row["copy"].removeprefix("file:")) for row in found]
    assert [copy.read_text() for copy in copies] == ["bad\nc", "e\nbad"]
    assert caplog.text.count("Batch 0 leaves out the file") == 2
    assert query.recentProgress[0].sources[0].numInputRows == 4
    lines.add("g")
    job.run()
    assert job.batches[1] == ["g"]


@pytest.mark.core
def test_a_corrupt_file_is_recorded_by_name_and_size(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    session.range(3).coalesce(1).write.parquet(str(source))
    (source / "broken.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")

    def rows() -> DataFrame:
        return session.readStream.schema("id long").parquet(str(source))

    job = Job(checkpoint, rows)
    job.fails()
    job.run()
    assert job.batches == {0: [0, 1, 2]}
    record = job.record()
    assert record is not None
    [part] = record.parts
    assert part.file is not None
    assert (part.file.rpartition("/")[2], part.bytes, part.unit) == ("broken.parquet", 33, "file")
    [row] = job.table(session)
    assert Path(row["copy"].removeprefix("file:")).read_bytes().startswith(b"PAR1 this")


def test_partition_columns_and_metadata_of_the_files_that_are_kept(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    for day, text in ((1, "a"), (2, "bad"), (3, "c")):
        directory = source / f"day={day}"
        directory.mkdir(parents=True)
        (directory / "rows.txt").write_text(text)

    def rows() -> DataFrame:
        stream = session.readStream.schema("value string, day int").text(str(source))
        checked = CHECKED.format("value", "'bad'", "string")
        return stream.selectExpr(checked, "day", "_metadata.file_name as name")

    job = Job(checkpoint, rows)
    seen: list[Row] = []
    job.take = lambda df, batch_id: seen.extend(df.collect())  # type: ignore[method-assign]
    job.fails()
    job.run()
    assert sorted(map(tuple, seen)) == [("a", 1, "rows.txt"), ("c", 3, "rows.txt")]


def test_several_ranges_of_a_v2_stream(session: SparkSession, checkpoint: Path) -> None:
    def rows() -> DataFrame:
        rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
        return rate.load().select("value")

    job = Job(checkpoint, rows)
    query = job.writer().trigger(once=True).foreachBatch(job.take).start()
    query.awaitTermination()
    replayed = ReplayedBatch(rows(), str(checkpoint), 0)
    [source] = replayed.sources
    stamp = json.loads(replayed.end[source].json)["timestamp"]

    def at(number: int) -> SerializedOffset:
        return SerializedOffset(json.dumps({"offset": number, "timestamp": stamp}))

    ranges = tuple(source.get_batch(at(a), at(b)) for a, b in ((0, 3), (5, 6), (8, 10)))
    data: dict[DataStream, object] = {source: Pieces(ranges)}
    execution = replayed.plan.prepare(
        BatchRequest(0, replayed.metadata, None, data, is_first_in_run=True)
    )
    frame = OrdinaryFrames(session, execution.jvm_execution).of(execution.jvm_execution)
    assert column(frame) == [0, 1, 2, 5, 8, 9]
    replayed.close()


# State.


@pytest.mark.core
def test_a_stateful_query_keeps_its_state(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    lines = LineFiles(tmp_path / "in")
    lines.add("a", "b")

    def rows() -> DataFrame:
        checked = CHECKED.format("value", "'bad'", "string")
        return lines.stream(session, at_most=10).selectExpr(checked).groupBy("value").count()

    job = Job(checkpoint, rows)
    job.take = lambda df, batch_id: job.batches.update(  # type: ignore[method-assign]
        {batch_id: sorted(map(tuple, df.collect()))}
    )
    writer = job.writer
    job.writer = lambda: writer().outputMode("complete")  # type: ignore[method-assign]
    job.run()
    for texts in (["a", "c"], ["bad", "a"], ["b"]):
        lines.add(*texts)
    job.fails()
    job.run()
    assert job.batches == {0: [("a", 1), ("b", 1)], 1: [("a", 2), ("b", 2), ("c", 1)]}
    assert not (checkpoint / ".penstock/trial").exists()
    lines.add("a", "bad2")
    job.run()
    assert job.batches[2] == [("a", 3), ("b", 2), ("bad2", 1), ("c", 1)]


# What is not put aside.


def test_a_failing_sink_is_not_the_fault_of_the_data(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = numbers_job(session, checkpoint, bad="99")
    take = job.take

    def fail(df: DataFrame, batch_id: int) -> None:
        raise OSError("the sink is down")

    job.take = fail  # type: ignore[method-assign]
    job.fails()
    with caplog.at_level(logging.WARNING, "penstock"):
        job.fails()
    assert "nothing of it is put aside: it does not fail without the sink" in caplog.text
    job.take = take  # type: ignore[method-assign]
    job.run()
    assert job.batches == {0: list(range(8)), 1: [8, 9]}
    assert job.record() is None
    assert not job.aside.exists()


def test_too_many_parts(session: SparkSession, checkpoint: Path) -> None:
    job = numbers_job(session, checkpoint, bad="1, 3, 5")
    job.rules = {"after": 1, "max_parts": 2}
    job.fails()
    assert "cannot process" in job.fails()
    assert job.record() is None
    job.rules = {"after": 1, "max_parts": 3}
    job.run()
    assert job.batches == {0: [0, 2, 4, 6, 7], 1: [8, 9]}


# Sinks.


@pytest.mark.core
def test_a_file_sink_and_many_sinks_get_the_rest(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    job = numbers_job(session, checkpoint, at_most=10)
    out = str(tmp_path / "out")
    with pytest.raises(StreamingQueryException):
        job.writer().start(out, format="parquet").awaitTermination()
    job.writer().start(out, format="parquet").awaitTermination()
    assert sorted(column(session.read.parquet(out))) == [0, 1, 2, 4, 5, 6, 7, 8, 9]

    other = numbers_job(session, tmp_path / "other", at_most=10)
    found: dict[str, list[int]] = {}

    def keep(name: str, df: DataFrame, batch_id: int) -> None:
        found[name] = column(df)

    def many() -> DataStreamWriter:
        writer = other.writer()
        for name in ("lake", "alerts"):
            writer.to(name, partial(keep, name))
        return writer

    with pytest.raises(StreamingQueryException):
        many().start().awaitTermination()
    assert found == {}
    many().start().awaitTermination()
    assert found == {key: [0, 1, 2, 4, 5, 6, 7, 8, 9] for key in ("lake", "alerts")}


def test_restarts_reach_the_quarantine_by_themselves(
    session: SparkSession, checkpoint: Path
) -> None:
    job = numbers_job(session, checkpoint, at_most=10)
    job.rules = {"after": 2}
    writer = job.writer().restart(max_restarts=5, backoff=0.01)
    writer.foreachBatch(job.take).start().awaitTermination()
    assert job.batches == {0: [0, 1, 2, 4, 5, 6, 7, 8, 9]}


# Crashes.


class Crash(BaseException):
    """The end of the process, as far as the engine can tell."""


class CrashAt(FaultInjector):
    def __init__(self, point: FaultPoint) -> None:
        self._point = point
        self.has_struck = False

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        if point is self._point and not self.has_struck:
            self.has_struck = True
            raise Crash(point.value)


@pytest.mark.parametrize(
    "point",
    [*sorted(OF_QUARANTINE), FaultPoint.AFTER_GET_BATCH, FaultPoint.AFTER_SINK],
)
def test_a_crash_at_every_point(
    session: SparkSession, checkpoint: Path, tmp_path: Path, point: FaultPoint
) -> None:
    lines = LineFiles(tmp_path / "in")
    for texts in (["a"], ["bad"], ["b", "c"]):
        lines.add(*texts)
    job = lines_job(session, checkpoint, lines)
    of_failure = point in (FaultPoint.BEFORE_FAILURE_ENTRY, FaultPoint.AFTER_FAILURE_ENTRY)
    if not of_failure:
        job.fails()
    faults = CrashAt(point)
    with pytest.raises(StreamingQueryException):
        job.run(faults)
    assert faults.has_struck
    before = job.record()
    if point is FaultPoint.BEFORE_FAILURE_ENTRY:
        job.fails()
    job.batches.clear()
    job.run()
    assert job.batches == {0: ["a", "b", "c"]}
    assert before in (None, job.record())
    [row] = job.table(session)
    assert Path(row["copy"].removeprefix("file:")).read_text() == "bad"


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": ""}, "needs a directory"),
        ({"path": "/aside", "after": 0}, r"quarantine\(after=0\)"),
        ({"path": "/aside", "max_parts": -1}, r"quarantine\(max_parts=-1\)"),
        ({"path": "/aside", "max_parts_per_day": True}, "whole number of at least 1"),
    ],
)
def test_arguments_are_checked(
    session: SparkSession, arguments: dict[str, Any], message: str
) -> None:
    writer = write_stream(read_stream(StandingNumbers(1), session))
    with pytest.raises(ExecutionError, match=message):
        writer.quarantine(**arguments)
