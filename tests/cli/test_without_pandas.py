"""What runs, and what fails how, where pandas, PyArrow, numpy and protobuf are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyspark
import pytest
import tomllib

from penstock.spark.jvm.lines import version_number
from penstock.spark.jvm.pyspark_api import HAS_CONDITIONS

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class WithoutSome(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname.partition(".")[0] in {"pandas", "pyarrow", "numpy", "google"}:
            return None
        return super().find_spec(fullname, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutSome
"""

BEGIN = """
import sys
from pyspark.sql import SparkSession, functions as F

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.log.level", "OFF")
    .getOrCreate()
)
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
"""

PLAIN = """
@F.udf("long")
def next_number(n):
    return n + 1

def show(df, batch_id):
    print("batch", batch_id, sorted(tuple(row) for row in df.collect()), flush=True)

for name, df, mode in (
    ("stateless", numbers.where("value < 2").select(next_number("value")), "append"),
    ("counts", numbers.groupBy(F.col("value") % 2).count(), "complete"),
):
    writer = df.writeStream.foreachBatch(show).outputMode(mode).trigger(once=True)
    writer.option("checkpointLocation", f"{sys.argv[1]}/{name}").start().awaitTermination()
"""

PANDAS = """
def total(key, frames, state):
    yield from frames

by_value = numbers.groupBy("value")
by_value.applyInPandasWithState(total, "a long", "b long", "append", "NoTimeout")
"""

STATE = """
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Total(StatefulProcessor):
    def init(self, handle): ...
    def handleInputRows(self, key, rows, timers): ...
    def close(self): ...

numbers.groupBy("value").transformWithState(Total(), "a long", "append", "none")
"""


HAS_TRANSFORM_WITH_STATE = version_number(pyspark.__version__) >= (4, 1)


def going_on(program: str) -> str:
    """The program, which prints its error as Python does and continues."""
    body = textwrap.indent(program, "    ")
    return f"import traceback\ntry:\n{body}\nexcept ImportError:\n    traceback.print_exc()\n"


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has none of the packages, nor have its workers."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "COLUMNS": "200"}


def penstock(env: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_the_packages_are_an_extra() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    names = [need.partition(">")[0] for need in pyproject["project"]["dependencies"]]
    assert sorted(names) == ["prometheus-client", "pyspark", "rich", "typer"]


def test_a_program_that_needs_none_of_them_runs(tmp_path: Path, without: dict[str, str]) -> None:
    job = tmp_path / "job.py"
    job.write_text(BEGIN + PLAIN)
    ran = penstock(without, "run", job, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "batch 0 [(1,), (2,)]\n" in ran.stdout
    assert "batch 0 [(0, 5), (1, 5)]\n" in ran.stdout

    shown = penstock(without, "checkpoint", "show", tmp_path / "counts", "--json")
    assert json.loads(shown.stdout)["nextBatch"] == 1
    verified = penstock(without, "checkpoint", "verify", tmp_path / "counts")
    assert verified.returncode == 0, verified.stdout


def test_a_program_that_needs_them_fails_with_the_error_of_pyspark(
    tmp_path: Path, without: dict[str, str]
) -> None:
    """One process for all: each program but the last goes on after its error."""
    programs = [PANDAS, STATE] if HAS_TRANSFORM_WITH_STATE else [PANDAS]
    job = tmp_path / "job.py"
    job.write_text(BEGIN + "".join(map(going_on, programs[:-1])) + programs[-1])
    ran = penstock(without, "run", job)
    assert ran.returncode == 1
    error = "PySparkImportError: [PACKAGE_NOT_INSTALLED] " if HAS_CONDITIONS else "ImportError: "
    assert ran.stderr.count(f"{error}Pandas") == len(programs)


def test_the_doctor_says_what_needs_them(without: dict[str, str]) -> None:
    asked = penstock(without, "doctor")
    assert asked.returncode == 0, asked.stdout
    lines = asked.stdout.splitlines()
    (line,) = (line for line in lines if "protobuf" in line)
    assert line.startswith("- pandas, pyarrow, protobuf not installed: pandas, pyarrow, protobuf.")
    assert "applyInPandasWithState and transformWithState: pip install 'penstock[pandas]'" in line
    assert lines[-1] == "Penstock can run here."
