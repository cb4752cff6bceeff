"""A few kills on Spark; `make crash` does more."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.engine.faults import OF_EVERY_QUERY, FaultPoint
from tests.crash.harness import AtMoment, AtPoint, Kill, Life, Strike, choose_kills, live
from tests.crash.pipelines import CONF, PIPELINES, Workspace, run_pipeline


@pytest.mark.core
def test_a_windowed_aggregation_that_is_killed_loses_nothing_and_writes_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last run is in this process, whose JVM is warm; it knows nothing of the killed ones."""
    session = spark.newSession()
    for key, value in CONF.items():
        session.conf.set(key, value)
    work = Workspace(tmp_path / "work")
    kills: list[Kill] = [
        AtPoint(FaultPoint.AFTER_SINK),
        AtPoint(FaultPoint.AFTER_OFFSET_LOG),
        AtMoment(batches_on=0, seconds=0.05, with_jvm=True),
    ]
    finish = partial(run_pipeline, session, "windowed", work)
    life = live(PIPELINES["windowed"], kills, work, last_run=finish)
    assert life.problems == []
    assert [(strike.has_struck, strike.problems) for strike in life.strikes] == [(True, ())] * 3
    assert life.runs == 4
    assert life.rows > 5


def test_fifty_kills_strike_at_every_point_and_every_pipeline() -> None:
    chosen = choose_kills(50, seed=7)
    points = [kill.point for _, kill in chosen if isinstance(kill, AtPoint)]
    assert sorted(points) == sorted(OF_EVERY_QUERY)
    assert {name for name, _ in chosen} == set(PIPELINES)
    assert chosen == choose_kills(50, seed=7)
    assert chosen != choose_kills(50, seed=8)


def test_the_expected_output_of_a_pipeline(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.add_files(3)
    work.add_files(2)
    work.close()
    ids = [number for number, _ in work.rows(work.left)]
    assert ids == list(range(200))
    for name in ("stateless", "windowed", "joined"):
        expected = PIPELINES[name].expected(work)
        assert set(expected.values()) == {1}
    assert PIPELINES["stateless"].expected(work).total() == 200
    assert PIPELINES["joined"].expected(work).total() == 100


def test_the_expected_output_of_the_numbers_is_that_of_the_planned_batches(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    numbers = PIPELINES["numbers"]
    assert numbers.expected(work) == {}
    (work.checkpoint / "offsets").mkdir(parents=True)
    (work.checkpoint / "offsets" / "2").write_text('v1\n{}\n{"offset":120,"timestamp":3000}')
    assert numbers.expected(work) == {(0,): 1, (1,): 1}
    (work.checkpoint / "offsets" / "3").write_text('v1\n{}\n{"offset":160,"timestamp":4000}')
    assert numbers.expected(work) == {(0,): 1, (1,): 1, (2,): 1}


def test_a_life_with_a_problem_is_reported() -> None:
    kill = AtPoint(FaultPoint.AFTER_SINK)
    assert Life("stateless", [Strike(kill, 0, True, ())]).is_well
    assert not Life("stateless", [Strike(kill, 0, True, ("offsets has gaps",))]).is_well
    assert not Life("stateless", problems=["3 rows lost"]).is_well
