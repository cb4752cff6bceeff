"""Spark writes no checksum files in a local checkpoint, and other files are unaffected."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import write_stream
from penstock.spark.jvm.gateway import Jvm
from tests.streams import LineFiles, column

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def checksums(directory: Path) -> list[Path]:
    return sorted(directory.rglob(".*.crc"))


def run(df: DataFrame, checkpoint: Path, out: Path) -> None:
    writer = write_stream(df).format("parquet").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()


@pytest.mark.parametrize("provider", [_HDFS_BACKED, _ROCKSDB])
def test_state_and_source_logs_have_no_checksums_and_the_sink_has(
    session: SparkSession, tmp_path: Path, checkpoint: Path, provider: str
) -> None:
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    lines = LineFiles(tmp_path / "in")
    out = tmp_path / "out"
    for arriving in (["a", "b", "a"], ["b", "c"]):
        lines.add(*arriving)
        run(lines.stream(session).dropDuplicates(["value"]), checkpoint, out)

    assert column(session.read.parquet(str(out))) == ["a", "b", "c"]
    assert checksums(out)
    assert checksums(checkpoint / "state") == []
    assert checksums(checkpoint / "sources") == []


def test_checksums_of_an_earlier_run_do_not_outlive_the_files_they_are_of(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    lines = LineFiles(tmp_path / "in")
    lines.add("a", "b")
    out = tmp_path / "out"
    run(lines.stream(session).dropDuplicates(["value"]), checkpoint, out)
    stale = checkpoint / "state" / "0" / "0" / ".1.delta.crc"
    stale.write_bytes(b"of another file")
    lines.add("b", "c")

    run(lines.stream(session).dropDuplicates(["value"]), checkpoint, out)

    assert not stale.exists()
    assert column(session.read.parquet(str(out))) == ["a", "b", "c"]


def test_a_file_manager_of_the_users_choice_writes_everything(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    manager = Jvm.of(session).line.classes["FileSystemBasedCheckpointFileManager"].name
    session.conf.set("spark.sql.streaming.checkpointFileManagerClass", manager)
    lines = LineFiles(tmp_path / "in")
    lines.add("a")

    run(lines.stream(session).dropDuplicates(["value"]), checkpoint, tmp_path / "out")

    assert checksums(checkpoint / "state")
    assert checksums(checkpoint / "offsets")
