"""The files and directories of a checkpoint have the permissions that Spark's engine gives them.

The directory of the checkpoint hands its group down to what is created in it (set-group-ID), as
directories that several users share often do. Files of the logs get the umask of the process with
Penstock and that of Hadoop with Spark, so the test sets the former to the default of the latter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.differential.runs import Engine

PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
_FILE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@pytest.fixture(autouse=True)
def umask_of_hadoop() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(checkpoint: Path) -> dict[str, str]:
    """The octal mode of everything in a checkpoint that both engines write."""
    return {
        _FILE_ID.sub("id", path.relative_to(checkpoint).as_posix()): oct(path.stat().st_mode)
        for path in checkpoint.rglob("*")
        if ".penstock" not in path.parts and not path.name.endswith(".crc")
    }


def run(engine: Engine, session: SparkSession, root: Path) -> dict[str, str]:
    lines, checkpoint = root / "lines", root / "checkpoint"
    lines.mkdir(parents=True)
    checkpoint.mkdir()
    checkpoint.chmod(0o2777)
    for round_ in range(2):
        (lines / f"{round_}.json").write_text('{"n": 1}\n')
        rows = session.readStream.schema("n long").json(str(lines))
        rows = rows.select("n", F.timestamp_seconds("n").alias("at")).withWatermark("at", "1 hour")
        others = rows.select(F.col("n").alias("m"), F.col("at").alias("other"))
        writer = engine.writer(rows.join(others, F.expr("n = m and at = other")))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.foreachBatch(lambda batch, _: batch.collect()).start().awaitTermination()
    return modes(checkpoint)


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def test_modes_are_those_of_spark(provider: str, spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.streaming.stateStore.providerClass", f"{PROVIDERS}.{provider}")
    of_spark = run(Engine.SPARK, session, tmp_path / "spark")
    assert of_spark["state/0/0"] == "0o42755"
    assert run(Engine.PENSTOCK, session, tmp_path / "penstock") == of_spark
