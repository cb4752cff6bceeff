"""What is in a checkpoint at each moment of a query's life, on both engines.

Compared is the list of all files and directories. Left out is what Penstock adds (`.penstock`) or
does without on a local disk: the checksum files of Hadoop (`.*.crc`). The versions of the state
are compared before a thread of the state stores, in its own time, writes or removes any.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.differential.runs import Engine

Tree = list[str]
RETAINED = 2
BATCHES = 10
STATE_VERSION = re.compile(r"^state/.*/(\d+\.\w+|\.\d+\.\w+\..+\.tmp)$")


def tree(root: Path) -> Tree:
    """Every path below a directory, directories with a slash at the end."""
    return sorted(
        path.relative_to(root).as_posix() + ("/" if path.is_dir() else "")
        for path in root.rglob("*")
        if ".penstock" not in path.parts and not path.name.endswith(".crc")
    )


def projected(rows: DataFrame) -> DataFrame:
    return rows.select("n")


def windowed(rows: DataFrame) -> DataFrame:
    at = F.timestamp_seconds(F.col("n") * 60).alias("at")
    return (
        rows.select(at).withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()
    )


def joined(rows: DataFrame) -> DataFrame:
    keyed = rows.select("n", F.timestamp_seconds(F.col("n") * 60).alias("at"))
    left = keyed.withWatermark("at", "1 minute")
    right = keyed.select(F.col("n").alias("m"), F.col("at").alias("other"))
    right = right.withWatermark("other", "1 minute")
    return left.join(right, F.expr("n = m and at = other"))


QUERIES = {"stateless": projected, "windowed": windowed, "joined": joined}


class Life:
    """One query on one engine, and the trees of its checkpoint."""

    def __init__(
        self,
        engine: Engine,
        session: SparkSession,
        build: Callable[[DataFrame], DataFrame],
        root: Path,
    ) -> None:
        self._engine = engine
        self._session = session
        self._build = build
        self._input = root / "input"
        self._checkpoint = root / "checkpoint"
        self._input.mkdir(parents=True)
        self._files = 0
        self._fails = False

    def arrive(self) -> None:
        path = self._input / f"{self._files}.json"
        path.write_text(f'{{"n": {self._files}}}\n')
        self._files += 1

    def start(self) -> Any:
        rows = self._session.readStream.schema("n long").json(str(self._input))
        writer = self._engine.writer(self._build(rows))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return writer.foreachBatch(self._take).start()

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        if self._fails:
            raise ValueError("this batch fails")
        batch.collect()

    def trees(self) -> dict[str, Tree]:
        found = {}
        query = self.start()
        query.processAllAvailable()
        found["after the start, without data"] = tree(self._checkpoint)
        query.stop()
        self._fails = True
        self.arrive()
        query = self.start()
        with pytest.raises(Exception, match="this batch fails"):
            query.awaitTermination(60)
        found["after a failed first batch"] = tree(self._checkpoint)
        self._fails = False
        query = self.start()
        query.processAllAvailable()
        query.stop()
        found["after a stop"] = tree(self._checkpoint)
        query = self.start()
        for _ in range(BATCHES):
            self.arrive()
            query.processAllAvailable()
        query.stop()
        found["after ten batches and their purges"] = [
            path for path in tree(self._checkpoint) if not STATE_VERSION.search(path)
        ]
        return found


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.extended] if n == "joined" else []) for n in QUERIES],
)
def test_the_files_of_a_checkpoint_are_those_of_spark_at_every_moment(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", RETAINED)
    found = {
        engine: Life(engine, session, QUERIES[name], tmp_path / engine.value).trees()
        for engine in Engine
    }
    for moment, expected in found[Engine.SPARK].items():
        seen = found[Engine.PENSTOCK][moment]
        assert (moment, set(seen) ^ set(expected)) == (moment, set())
    kept = [p for p in found[Engine.SPARK]["after ten batches and their purges"] if "offsets/" in p]
    assert len(kept) < BATCHES  # there was a purge
