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

import pytest
from pyspark.sql import SparkSession

from tests.differential.program import Program
from tests.differential.programs import PROGRAMS
from tests.differential.round_trips import make_the_trip

ALWAYS = {"tumbling-append"}
"""The programs that `make test` runs; `make test-all` runs all."""


def _stateful() -> list[object]:
    return [
        pytest.param(program, id=program.name, marks=_marks(program))
        for program in PROGRAMS
        if program.stateful
    ]


def _marks(program: Program) -> list[pytest.MarkDecorator]:
    often = pytest.mark.core if program.name in ALWAYS else pytest.mark.extended
    return [pytest.mark.since(program.since, program.name), often]


@pytest.mark.parametrize("program", _stateful())
def test_a_query_may_change_engines_at_any_batch(
    program: Program, spark: SparkSession, tmp_path: Path
) -> None:
    found = make_the_trip(program, spark, tmp_path)
    if any(found):
        pytest.fail("\n".join([program.name, *found]), pytrace=False)
