"""Crash tests of queries with many sinks on Spark: only a crash of its own repeats a sink."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import BatchWriter, DataStreamWriter, write_stream
from penstock.engine.faults import OF_MANY_SINKS
from penstock.testing import Workspace, crash_test
from penstock.testing.crash_faults import STOP_POINTS

INPUT = [[1, 2], [3, 4, 5], [6]]


def two_sinks(work: Workspace) -> DataStreamWriter:
    """One that only appends and one that is idempotent, over a query with state."""

    def append(df: DataFrame, batch_id: int) -> None:
        with open(f"{work.output}.log", "a") as file:
            file.writelines(f"{row.n}\n" for row in df.collect())

    files = BatchWriter("json").option("path", work.output).by_batch()
    unique = work.input.select("n").dropDuplicates()
    return write_stream(unique).to("log", append).to("files", files, where="n > 0")


def log_of(work: Workspace) -> list[int]:
    log = Path(f"{work.output}.log")
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def files_of(work: Workspace) -> DataFrame:
    return work.spark.read.schema("n long").json(work.output).select(F.col("n"))


AROUND_THE_ENTRY: dict[str, list[tuple[int]]] = {
    "before_sink_entry:1": [(3,), (4,), (5,)],
    "before_sink_entry:1:2": [],
    "after_sink_entry:1": [],
    "after_sink_entry:1:2": [],
}
BEFORE_A_SINK: dict[str, list[tuple[int]]] = {
    "after_computing:1": [],
    "before_named_sink:1": [],
    "before_named_sink:1:2": [],
}
"""Rows that are in the log twice, by the point of the crash."""


@pytest.mark.parametrize(
    "twice", [AROUND_THE_ENTRY, pytest.param(BEFORE_A_SINK, marks=pytest.mark.extended)]
)
def test_a_sink_that_only_appends_gets_a_batch_twice_only_after_its_own_crash(
    session: SparkSession, twice: dict[str, list[tuple[int]]]
) -> None:
    points = sorted({crash.partition(":")[0] for crash in twice})
    report = crash_test(
        two_sinks, INPUT, schema="n long", read_output=log_of, spark=session, points=points
    )
    assert {str(t.crashed_at): sorted(t.duplicates) for t in report.trials} == twice
    assert not any(trial.lost or trial.error for trial in report.trials)


@pytest.mark.extended
def test_a_sink_that_is_idempotent_is_exactly_once_at_every_point(session: SparkSession) -> None:
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    report = crash_test(
        two_sinks, INPUT, schema="n long", read_output=files_of, spark=session, every_batch=True
    )
    report.check()
    crashed = {trial.crashed_at.point for trial in report.trials}
    assert crashed >= OF_MANY_SINKS
    assert report.not_passed == []
    assert not crashed & STOP_POINTS
