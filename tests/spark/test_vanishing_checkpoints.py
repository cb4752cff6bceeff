"""A checkpoint that disappears: Penstock loses no data silently; compared with Spark's engine.

The table in docs/reliability.md lists the results: each of its rows is run by both engines.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock import StreamingQueryException, read_stream, write_stream
from penstock.errors import CheckpointVanishedError, SinkAheadError
from tests.spark.vanishing import PARTS, Case, Damage, Moment, Trial, may_mount, unmount
from tests.streams import LineFiles, Numbers, column, has_committed, log_entries

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
CASES = [Case(part, damage, moment) for part in PARTS for damage in Damage for moment in Moment]
TABLE = dict(
    re.findall(r"^\| ([^|]+ \| [^|]+ \| [^|]+) \| ([^|]+ \| [^|]+) \|$", PAGE.read_text(), re.M)
)


def row_of(case: Case) -> str:
    part = f"`{case.part}`" if case.part else "all of it"
    return f"{part} | {case.damage.value} | {case.moment.value}"


# Every part and every damage, with both engines.


@pytest.mark.parametrize(
    "case",
    [
        # The whole checkpoint in every run of the suite, its parts in `make test-all`.
        pytest.param(case, marks=[pytest.mark.extended] if case.part else [], id=str(case))
        for case in CASES
    ],
)
def test_the_table_of_the_page_is_what_happens(
    session: SparkSession, tmp_path: Path, case: Case
) -> None:
    if case.damage is Damage.READ_ONLY and not may_mount(tmp_path):
        pytest.skip("making a directory read-only for root takes a mount, which is not allowed")
    of_spark, ours = (
        Trial(session, tmp_path / name, case, by_spark=name == "spark").run()
        for name in ("spark", "penstock")
    )
    assert TABLE[row_of(case)] == f"{of_spark.text} | {ours.text}"
    assert not ours.loses_silently
    assert ours.twice == 0
    assert ours.restarts or not of_spark.restarts or of_spark.loses_silently


def test_the_table_has_every_case() -> None:
    assert set(TABLE) >= {row_of(case) for case in CASES}


# Directories after the start.


def test_the_directories_of_the_logs_are_made_at_the_start_as_spark_makes_them(
    session: SparkSession, tmp_path: Path
) -> None:
    made = []
    for by_spark in (True, False):
        checkpoint = tmp_path / f"by_spark_{by_spark}"
        lines = LineFiles(tmp_path / "in").stream(session)
        writer = lines.writeStream if by_spark else write_stream(lines)
        query = writer.format("noop").option("checkpointLocation", str(checkpoint)).start()
        query.processAllAvailable()
        names = {p.name for p in checkpoint.iterdir() if not p.name.startswith(".")}
        query.stop()
        made.append(names)
    assert made[0] == made[1] == {"metadata", "offsets", "commits", "sources"}


# The disk is unmounted under a running query, and mounted again.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system; skipped if this machine does not permit a mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"mounting a file system is not allowed here: {exc}")
    kept = tmp_path / "kept"
    kept.mkdir()
    subprocess.run(["mount", "--bind", str(disk), str(kept)], check=True)
    yield disk
    unmount(disk)
    unmount(kept)


def test_a_disk_that_goes_and_comes_back_costs_no_row(
    session: SparkSession, tmp_path: Path, disk: Path
) -> None:
    files, out, checkpoint = LineFiles(tmp_path / "in"), str(tmp_path / "out"), disk / "checkpoint"

    def start(at_most: int) -> penstock.StreamingQuery:
        writer = write_stream(files.stream(session, at_most)).format("parquet")
        writer.option("checkpointLocation", str(checkpoint))
        return writer.trigger(processingTime="1 second").start(out)

    for n in range(4):
        files.add(f"line {n}")
    query = start(at_most=1)
    has_committed(query, 3)
    unmount(disk)
    for n in range(4, 10):
        files.add(f"line {n}")
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    assert isinstance(caught.value.__cause__, CheckpointVanishedError)
    assert f"file:{checkpoint}/metadata is gone" in str(caught.value)
    assert "was there before" in str(caught.value)
    assert not (checkpoint / "offsets").exists()
    assert log_entries(Path(out), "_spark_metadata") == [0, 1, 2, 3]
    subprocess.run(["mount", "--bind", str(tmp_path / "kept"), str(disk)], check=True)
    again = start(at_most=3)
    again.processAllAvailable()
    again.stop()
    written = session.read.schema("value string").parquet(out)
    assert column(written) == sorted(files.lines)


def test_a_directory_that_is_renamed_under_a_query_without_files_of_spark(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    numbers = Numbers(2)
    writer = write_stream(read_stream(numbers, session)).format("parquet")
    writer.option("checkpointLocation", str(checkpoint))
    query = writer.start(str(tmp_path / "out"))
    query.processAllAvailable()
    checkpoint.rename(tmp_path / "away")
    numbers.available = 5
    with pytest.raises(StreamingQueryException, match="metadata is gone"):
        query.processAllAvailable()
    assert not checkpoint.exists()
    (tmp_path / "away").rename(checkpoint)
    again = writer.start(str(tmp_path / "out"))
    again.processAllAvailable()
    again.stop()
    assert column(session.read.parquet(str(tmp_path / "out"))) == [0, 1, 2, 3, 4]


# A sink with newer batches than the checkpoint.


def run_to(
    session: SparkSession, out: Path, checkpoint: Path, available: int, **options: str
) -> None:
    rows = read_stream(Numbers(available, at_most=1), session)
    writer = write_stream(rows).format("parquet").options(**options)
    writer.option("checkpointLocation", str(checkpoint))
    query = writer.start(str(out))
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_a_restart_on_an_older_checkpoint_is_refused_with_the_batches_and_the_remedy(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    out = tmp_path / "out"
    run_to(session, out, checkpoint, 5)
    for log in ("offsets", "commits"):
        for batch in (3, 4):
            (checkpoint / log / str(batch)).unlink()
    with pytest.raises(StreamingQueryException) as caught:
        run_to(session, out, checkpoint, 9)
    assert isinstance(caught.value.__cause__, SinkAheadError)
    message = str(caught.value)
    assert f"{out}] has batches 3 to 4 in its own log" in message
    assert re.search(r"The sink FileSink\[(file:)?/", message)  # Spark 3.5 shows the path as given
    assert "rewind CHECKPOINT --to 2 --sink OUTPUT" in message
    assert log_entries(checkpoint, "offsets") == [0, 1, 2]
    cut_back = ["rewind", str(checkpoint), "--to", "2", "--sink", str(out), "--yes", "--stopped"]
    command = [sys.executable, "-m", "penstock.cli", "checkpoint", *cut_back]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run_to(session, out, checkpoint, 9)
    assert column(session.read.parquet(str(out))) == list(range(9))


def test_the_one_batch_that_is_planned_may_be_known_to_the_sink(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    run_to(session, tmp_path / "out", checkpoint, 3)
    (checkpoint / "commits" / "2").unlink()
    run_to(session, tmp_path / "out", checkpoint, 5)
    assert column(session.read.parquet(str(tmp_path / "out"))) == [0, 1, 2, 3, 4]


def test_a_new_checkpoint_on_an_old_output_is_refused_unless_told_otherwise(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    out = tmp_path / "out"
    run_to(session, out, checkpoint, 3)
    other = tmp_path / "other"
    with pytest.raises(StreamingQueryException, match=r"batches 0 to 2 in its own log.* none"):
        run_to(session, out, other, 5)
    run_to(session, out, other, 5, skipKnownBatches="true")
    assert column(session.read.parquet(str(out))) == [0, 1, 2, 3, 4]
    run_to(session, tmp_path / "new", tmp_path / "third", 5)
    assert column(session.read.parquet(str(tmp_path / "new"))) == [0, 1, 2, 3, 4]


def test_the_log_of_the_sink_may_be_compacted(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    session.conf.set("spark.sql.streaming.fileSink.log.cleanupDelay", "0")
    out = tmp_path / "out"
    run_to(session, out, checkpoint, 4)
    assert (out / "_spark_metadata" / "3.compact").exists()
    for log in ("offsets", "commits"):
        (checkpoint / log / "3").unlink()
    with pytest.raises(StreamingQueryException, match="has batch 3 in its own log"):
        run_to(session, out, checkpoint, 5)
