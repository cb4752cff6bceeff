"""A query that changes engines between batches has the same results as one that does not.

Every stateful program is run in three rounds. The reference is a query on Spark's engine that is
never stopped. Four other queries on the same files change engines between the rounds: Spark,
Penstock, Spark, or Penstock, Spark, Penstock; and each of these either after its last batch was
committed, or with that batch planned and not committed, so that the other engine runs it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.compare import differences
from tests.differential.inputs import arrive
from tests.differential.program import Aspect, Program
from tests.differential.programs import PROGRAMS
from tests.differential.runs import Engine, Observation, Run, prepare

ROUNDS = 3
ATTEMPTS = 3
ALWAYS = {"tumbling-append"}
"""The programs that `make test` runs; `make test-all` runs all."""

COMPARED = (Aspect.ROWS, Aspect.OFFSETS, Aspect.COMMITS, Aspect.SOURCE_LOGS, Aspect.STATE)


def _stateful() -> list[object]:
    return [
        pytest.param(program, id=program.name)
        if program.name in ALWAYS
        else pytest.param(program, id=program.name, marks=pytest.mark.extended)
        for program in PROGRAMS
        if program.stateful
    ]


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
    # The reference runs on while files arrive. If it asks one source just before and another just
    # after that, it takes in two batches what the others, started afterwards, take in one.
    attempts = ATTEMPTS if len(program.inputs) > 1 else 1
    found: list[str] = []
    for attempt in range(attempts):
        found = _make_the_trip(program, spark, tmp_path / str(attempt))
        if not any(found):
            return
    pytest.fail("\n".join([program.name, *found]), pytrace=False)


def _make_the_trip(program: Program, spark: SparkSession, root: Path) -> list[str]:
    """What differs from the reference, route by route."""
    session = prepare(program, spark)
    routes = _routes(program, session, root)
    reference = Run(program, session, root / "input", root / "uninterrupted")
    arrive(root / "input", program.inputs, program.format, 0, ROUNDS)
    uninterrupted = reference.start(Engine.SPARK, processingTime="0 seconds")
    try:
        for number in range(ROUNDS):
            if number > 0:
                for route in routes:
                    route.before_change()
                arrive(root / "input", program.inputs, program.format, number, ROUNDS)
            uninterrupted.processAllAvailable()
            for route in routes:
                route.go()
    finally:
        uninterrupted.stop()
    expected = _seen(reference)
    return [differences("uninterrupted", expected, str(r), _seen(r.run)) for r in routes]
