"""A batch that Spark's engine rejects is rejected by Penstock with the same error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.errors.exceptions.captured import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from tests.differential.inputs import arrive
from tests.differential.program import Program
from tests.differential.programs.aggregations import by_key
from tests.differential.programs.data import EVENTS_ONLY
from tests.differential.runs import Engine, Run
from tests.differential.sinks import CollectingSink, Outlet


class ForgetfulSink(CollectingSink):
    """`foreachBatch` with a function that does not use its DataFrame: no state is written."""

    def attach(self, writer: object, outlet: Outlet) -> object:
        def forget(df: DataFrame, batch_id: int) -> None:
            pass

        return writer.foreachBatch(forget)  # type: ignore[attr-defined]  # of either engine


PROGRAM = Program("forgetful", by_key, EVENTS_ONLY, "update", sink=ForgetfulSink())


@pytest.mark.until("4.0", "batches whose state nobody counts")
def test_a_batch_whose_state_was_not_computed_is_not_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    commits = []
    for engine in Engine:
        home = tmp_path / engine.value
        arrive(home / "input", PROGRAM.inputs, PROGRAM.format, 0, 1)
        run = Run(PROGRAM, spark.newSession(), home / "input", home / "run")
        run.run_round(engine)
        commits.append(run.log("commits"))
    assert len(commits[0]) > 1
    assert commits[0] == commits[1]


@pytest.mark.since("4.1", "a count of the state that a batch commits")
def test_a_batch_that_writes_no_state_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    reasons = {}
    for engine in Engine:
        home = tmp_path / engine.value
        arrive(home / "input", PROGRAM.inputs, PROGRAM.format, 0, 1)
        run = Run(PROGRAM, spark.newSession(), home / "input", home / "run")
        with pytest.raises(StreamingQueryException) as raised:
            run.run_round(engine)
        assert raised.value.getCondition() == "STREAM_FAILED"
        assert list(run.log("commits")) == [0]
        reasons[engine] = _reason(raised.value)

    reason = reasons[Engine.PENSTOCK]
    assert reason.getCondition() == "STATE_STORE_COMMIT_VALIDATION_FAILED"
    assert type(reason) is type(reasons[Engine.SPARK]) is SparkRuntimeException
    assert str(reason) == str(reasons[Engine.SPARK])
    assert reason.getCondition() == reasons[Engine.SPARK].getCondition()
    assert reason.getMessageParameters() == reasons[Engine.SPARK].getMessageParameters()


def _reason(error: BaseException) -> PySparkException:
    """The cause of a failed query: the first one with a condition."""
    cause = error._cause  # type: ignore[attr-defined]  # PySpark's attribute
    while cause.getCondition() is None:
        cause = cause._cause
    assert isinstance(cause, PySparkException)
    return cause
