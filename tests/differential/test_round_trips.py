"""A query that changes engines between batches has the same results as one that does not.

Every stateful program is run in three rounds. The reference is a query on Spark's engine: never
stopped if the program reads one source. With several sources it is started for each round, because
a running query could poll one source before and another after the files of a round arrive, and make
two batches of what the others read in one. Four other queries on the same files change engines
between the rounds: Spark, Penstock, Spark, or Penstock, Spark, Penstock; and each of these either
after its last batch was committed, or with that batch planned and not committed, so that the other
engine runs it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.differential.compare import differences
from tests.differential.inputs import arrive
from tests.differential.program import Aspect, Program
from tests.differential.programs import PROGRAMS
from tests.differential.runs import Engine, Observation, Run, prepare

ROUNDS = 3
ALWAYS = {"tumbling-append"}
"""The programs that `make test` runs; `make test-all` runs all."""

COMPARED = (Aspect.ROWS, Aspect.OFFSETS, Aspect.COMMITS, Aspect.SOURCE_LOGS, Aspect.STATE)


def _stateful() -> list[object]:
    return [
        pytest.param(program, id=program.name, marks=_marks(program))
        for program in PROGRAMS
        if program.stateful
    ]


def _marks(program: Program) -> list[pytest.MarkDecorator]:
    often = pytest.mark.core if program.name in ALWAYS else pytest.mark.extended
    return [pytest.mark.since(program.since, program.name), often]


class Route:
    """A query that starts on one engine and changes to the other before every further round."""

    def __init__(self, run: Run, first: Engine, *, committed: bool) -> None:
        self.run = run
        self._engine = first
        self._committed = committed

    def go(self) -> None:
        self.run.run_round(self._engine)
        self._engine = self._engine.other

    def before_change(self) -> None:
        if not self._committed:
            self.run.forget_last_commit()

    def __str__(self) -> str:
        return self.run.root.name


class Reference:
    """The query that Spark alone runs: without a stop if it reads one source."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._query: Any = None

    def go(self) -> None:
        if len(self.run.program.inputs) > 1:
            self.run.run_round(Engine.SPARK)
            return
        if self._query is None:
            self._query = self.run.start(Engine.SPARK, processingTime="0 seconds")
        self._query.processAllAvailable()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()


def _routes(program: Program, session: SparkSession, root: Path) -> list[Route]:
    return [
        Route(
            Run(program, session, root / "input", root / f"{first.value}-first-{state}".lower()),
            first,
            committed=state == "committed",
        )
        for first in Engine
        for state in ("committed", "planned")
    ]


def _seen(run: Run) -> Observation:
    observed = run.observe()
    return {aspect: observed[aspect] for aspect in COMPARED if aspect in observed}


@pytest.mark.parametrize("program", _stateful())
def test_a_query_may_change_engines_at_any_batch(
    program: Program, spark: SparkSession, tmp_path: Path
) -> None:
    found = _make_the_trip(program, spark, tmp_path)
    if any(found):
        pytest.fail("\n".join([program.name, *found]), pytrace=False)


def _make_the_trip(program: Program, spark: SparkSession, root: Path) -> list[str]:
    """What differs from the reference, route by route."""
    session = prepare(program, spark)
    routes = _routes(program, session, root)
    reference = Reference(Run(program, session, root / "input", root / "reference"))
    try:
        for number in range(ROUNDS):
            if number > 0:
                for route in routes:
                    route.before_change()
            arrive(root / "input", program.inputs, program.format, number, ROUNDS)
            reference.go()
            for route in routes:
                route.go()
    finally:
        reference.stop()
    expected = _seen(reference.run)
    return [differences("reference", expected, str(r), _seen(r.run)) for r in routes]
