"""A checkpoint of `dropDuplicates` keeps the key order of its first batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.differential.inputs import arrive
from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_ONLY
from tests.differential.runs import Engine, Run

ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
COLUMNS = [f"key_{number}" for number in range(6)]
"""More columns than Scala's small sets hold, so that their order depends on hashes."""


def wide_duplicates(source: Input) -> DataFrame:
    columns = {name: f"concat(key, '{name}')" for name in COLUMNS}
    wide = source.stream().selectExpr(*(f"{text} AS {name}" for name, text in columns.items()))
    return wide.dropDuplicates(COLUMNS)


@pytest.mark.since("4.3", "an order of keys that the columns give")
@pytest.mark.parametrize("second", Engine, ids=lambda engine: f"{engine.value}-second")
@pytest.mark.parametrize("began", ["true", "false"])
def test_the_recorded_key_order_overrides_the_session(
    began: str, second: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    program = Program("wide-duplicates", wide_duplicates, EVENTS_ONLY, rounds=2)
    run = Run(program, spark.newSession(), tmp_path / "input", tmp_path / "run")
    for number, engine in enumerate((second.other, second)):
        arrive(tmp_path / "input", program.inputs, program.format, number, program.rounds)
        run.session.conf.set(ORDER, began if number == 0 else _other(began))
        run.run_round(engine)

    delivered = [row["key_0"] for rows in run.rows().values() for row in rows]
    assert sorted(delivered) == ["akey_0", "bkey_0", "ckey_0", "dkey_0"]


def _other(flag: str) -> str:
    return "false" if flag == "true" else "true"
