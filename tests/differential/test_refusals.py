"""What Spark's engine does not let pass, Penstock does not let pass, for the same reason."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.differential.inputs import arrive
from tests.differential.program import Program
from tests.differential.programs.aggregations import by_key
from tests.differential.programs.data import EVENTS_ONLY
from tests.differential.runs import Engine, Run
from tests.differential.sinks import CollectingSink, Outlet


class ForgetfulSink(CollectingSink):
    """foreachBatch with a function that does not compute its batch, so that no state is written."""

    def attach(self, writer: object, outlet: Outlet) -> object:
        def forget(df: DataFrame, batch_id: int) -> None:
            pass

        return writer.foreachBatch(forget)  # type: ignore[attr-defined]  # either engine's


@pytest.mark.parametrize("engine", Engine, ids=lambda engine: engine.value)
def test_a_batch_whose_state_was_not_computed_ends_the_query(
    engine: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    program = Program("forgetful", by_key, EVENTS_ONLY, "update", sink=ForgetfulSink())
    arrive(tmp_path / "input", program.inputs, program.format, 0, 1)
    run = Run(program, spark.newSession(), tmp_path / "input", tmp_path / "run")

    with pytest.raises(StreamingQueryException) as raised:
        run.run_round(engine)

    assert "STATE_STORE_COMMIT_VALIDATION_FAILED" in _whole_story(raised.value)
    assert list(run.log("commits")) == [0]


def _whole_story(error: BaseException) -> str:
    """The text of an error and of what caused it, in Python and in the JVM."""
    of_jvm = str(getattr(error, "_stackTrace", "") or "")
    return "".join(traceback.format_exception(error)) + of_jvm
