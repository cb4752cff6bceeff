"""Changes the engine of a query between its batches.

The reference is a query on Spark's engine. Four other queries on the same input change engines
between the rounds: Spark, Penstock, Spark, or Penstock, Spark, Penstock; and each of these either
after its last batch was committed, or with that batch planned and not committed, so that the other
engine runs it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.differential.compare import differences
from tests.differential.program import Aspect, Program
from tests.differential.runs import Arrival, Engine, Observation, Run, files_of, prepare

ROUNDS = 3
COMPARED = (Aspect.ROWS, Aspect.OFFSETS, Aspect.COMMITS, Aspect.SOURCE_LOGS, Aspect.STATE)


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
    """The query that Spark alone runs: started once, or for each round."""

    def __init__(self, run: Run, *, never_stopped: bool) -> None:
        self.run = run
        self._never_stopped = never_stopped
        self._query: Any = None

    def go(self) -> None:
        if not self._never_stopped:
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


def make_the_trip(
    program: Program, spark: SparkSession, root: Path, arrival: Arrival | None = None
) -> list[str]:
    """What differs from the reference, route by route.

    The input of a round is the program's files, or what `arrival` makes available. In the second
    case the reference is started for each round, as it is with several sources.
    """
    session = prepare(program, spark)
    routes = _routes(program, session, root)
    run = Run(program, session, root / "input", root / "reference")
    reference = Reference(run, never_stopped=len(program.inputs) == 1 and arrival is None)
    arrival = arrival or files_of(program, root / "input")
    try:
        for number in range(ROUNDS):
            if number > 0:
                for route in routes:
                    route.before_change()
            arrival(number, ROUNDS)
            reference.go()
            for route in routes:
                route.go()
    finally:
        reference.stop()
    expected = _seen(reference.run)
    return [differences("reference", expected, str(r), _seen(r.run)) for r in routes]
