"""A checkpoint that is restarted with another format of state than it began with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.differential.inputs import arrive
from tests.differential.program import Program
from tests.differential.programs.aggregations import by_key
from tests.differential.programs.data import CHANGELOG, EVENTS_ONLY
from tests.differential.runs import Engine, Run

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")

PROGRAM = Program("state-format", by_key, EVENTS_ONLY, "update", rounds=2, stateful=True)


@pytest.mark.since("4.0", "state named by ids")
@pytest.mark.parametrize(("began", "goes_on"), [("1", "2"), ("2", "1")])
def test_it_goes_on_or_is_refused_as_on_spark(
    began: str, goes_on: str, spark: SparkSession, tmp_path: Path
) -> None:
    outcomes = []
    for engine in Engine:
        home = tmp_path / engine.value
        run = Run(PROGRAM, _session(spark), home / "input", home / "run")
        arrive(home / "input", PROGRAM.inputs, PROGRAM.format, 0, PROGRAM.rounds)
        run.session.conf.set(FORMAT, began)
        run.run_round(engine)
        arrive(home / "input", PROGRAM.inputs, PROGRAM.format, 1, PROGRAM.rounds)
        run.session.conf.set(FORMAT, goes_on)
        outcomes.append((_conditions(run, engine), _versions(run), run.rows()))
    of_spark, of_penstock = outcomes
    assert of_penstock == of_spark


def _session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for key, value in CHANGELOG.items():
        session.conf.set(key, value)
    return session


def _conditions(run: Run, engine: Engine) -> set[str]:
    """The conditions in the error that a restart ends with, none if it does not fail."""
    try:
        run.run_round(engine)
    except StreamingQueryException as error:
        return set(_CONDITION.findall(str(error)))
    return set()


def _versions(run: Run) -> dict[int, str]:
    """The first line of each commit."""
    return {batch: entry.splitlines()[0] for batch, entry in run.log("commits").items()}
