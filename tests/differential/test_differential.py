"""Every program has the same results on Penstock as on Spark's engine, batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.differential.compare import differences
from tests.differential.program import Program
from tests.differential.programs import PROGRAMS
from tests.differential.runs import Engine, run_in_lock_step


def _parameters() -> list[object]:
    return [pytest.param(program, id=program.name, marks=program.marks()) for program in PROGRAMS]


@pytest.mark.parametrize("program", _parameters())
def test_a_program_has_the_same_results_on_both_engines(
    program: Program, spark: SparkSession, tmp_path: Path
) -> None:
    runs = run_in_lock_step(program, spark, tmp_path)
    spark_run, penstock_run = runs[Engine.SPARK].observe(), runs[Engine.PENSTOCK].observe()
    difference = differences("Spark", spark_run, "Penstock", penstock_run)
    if difference:
        pytest.fail(f"{program.name}\n{difference}", pytrace=False)


def test_there_are_60_programs_with_unique_names() -> None:
    names = [program.name for program in PROGRAMS]

    assert len(names) >= 60
    assert len(names) == len(set(names))
