"""Damaged checkpoints under both engines: Penstock resumes from those that Spark resumes from.

Where Spark fails, Penstock fails too; its error messages are tested without Spark.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import write_stream
from penstock.errors import PenstockError
from tests.streams import LineFiles, log_entries


def run(lines: DataFrame, checkpoint: Path, *, by_spark: bool) -> None:
    writer = lines.writeStream if by_spark else write_stream(lines)
    writer.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[LineFiles, Path]:
    """Four input files, three of which a run of Penstock has processed."""
    root = tmp_path_factory.mktemp("broken")
    files = LineFiles(root / "in")
    for n in range(3):
        files.add(str(n))
    run(files.stream(spark), root / "checkpoint", by_spark=False)
    files.add("3")
    return files, root / "checkpoint"


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        (checkpoint / name).write_bytes(data)

    return damage


def remove(name: str) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        (checkpoint / name).unlink()

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], bool]] = {
    "empty offsets": (write("offsets/2", b""), False),
    "garbage for offsets": (write("offsets/2", b"\x00\xff"), False),
    "offsets of the future": (write("offsets/2", b"v9\n{}\n3"), False),
    "no offsets before": (remove("offsets/1"), False),
    "empty commit": (write("commits/2", b""), False),
    "commit of the future": (write("commits/2", b"v9\n{}"), False),
    "empty metadata": (write("metadata", b""), False),
    "old offsets are gone": (remove("offsets/0"), True),
    "a commit in the middle is gone": (remove("commits/1"), True),
    "the last commit is gone": (remove("commits/2"), True),
    "an old commit is torn": (write("commits/0", b""), True),
    "a commit of an old Spark": (write("commits/2", b"v1\n{}"), True),
    "temporary files": (write("offsets/.3.a1b2.tmp", b"half"), True),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_both_engines_refuse_the_same_and_go_on_from_the_same(
    session: SparkSession, world: tuple[LineFiles, Path], tmp_path: Path, damage: str
) -> None:
    (files, original), (spoil, goes_on) = world, DAMAGE[damage]
    outcomes = []
    for by_spark in (True, False):
        checkpoint = tmp_path / f"by_spark_{by_spark}"
        shutil.copytree(original, checkpoint)
        spoil(checkpoint)
        has_run = False
        with contextlib.suppress(PySparkException, Py4JError, PenstockError):
            run(files.stream(session), checkpoint, by_spark=by_spark)
            has_run = True
        outcomes.append((has_run, log_entries(checkpoint, "offsets")))
    of_spark, of_penstock = outcomes
    assert of_spark == of_penstock
    assert of_spark[0] is goes_on
