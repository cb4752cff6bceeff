"""The plan of a batch is analyzed only if analysis can change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import read_stream, write_stream
from penstock.spark.jvm.calls import send
from penstock.spark.plan import planning
from tests.streams import LineFiles, Numbers, column


@pytest.fixture
def analyzed_before(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each batch, whether its plan is marked as analyzed before Spark analyzes it."""
    seen: list[bool] = []

    def watched(target: Any, method: str, *arguments: Any) -> Any:
        if method == "execution":
            seen.append(arguments[-1])
        return send(target, method, *arguments)

    monkeypatch.setattr(planning, "send", watched)
    return seen


def run(df: DataFrame, checkpoint: Path, name: str) -> None:
    writer = write_stream(df).format("memory").queryName(name).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def test_after_the_first_batch_the_plan_is_known_to_be_analyzed(
    session: SparkSession, checkpoint: Path, tmp_path: Path, analyzed_before: list[bool]
) -> None:
    files = LineFiles(tmp_path / "in")
    for line in "abc":
        files.add(line)
    run(files.stream(session), checkpoint, "known_plan")
    assert column(session.table("known_plan")) == ["a", "b", "c"]
    assert analyzed_before == [False, True, True]


def test_another_set_of_sources_with_data_is_another_plan(
    session: SparkSession, checkpoint: Path, analyzed_before: list[bool]
) -> None:
    first, second = Numbers(1), Numbers(0)
    both = read_stream(first, session).union(read_stream(second, session))
    writer = write_stream(both).format("memory").queryName("two_shapes")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    for source in (first, first, second, second):
        query.processAllAvailable()
        source.available += 1
    query.processAllAvailable()
    query.stop()
    assert analyzed_before == [False, True, True, False, True]
    assert column(session.table("two_shapes")) == [0, 0, 1, 1, 2]


def test_a_plan_that_analysis_changes_is_analyzed_in_every_batch(
    session: SparkSession, checkpoint: Path, analyzed_before: list[bool]
) -> None:
    # The column is nullable in the stream but not in the batch: analysis updates the filter.
    source = Numbers(1)
    doubled = read_stream(source, session).selectExpr("n * 2 as n").filter("n >= 0")
    query = (
        write_stream(doubled)
        .format("memory")
        .queryName("changed_plan")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    for _ in range(2):
        query.processAllAvailable()
        source.available += 1
    query.processAllAvailable()
    query.stop()
    assert analyzed_before == [False, False, False]
    assert column(session.table("changed_plan")) == [0, 2, 4]
