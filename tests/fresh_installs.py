"""`make test-install`: the wheel in a new environment with each line of Spark.

    python -m tests.fresh_installs [PYTHON]

For every line an environment is created with PYTHON, and that line's PySpark installed first. Then
the wheel is installed, which has to keep the PySpark; `penstock doctor` has to find all that it
looks for, and `penstock run` has to run a program that does not mention Penstock. ONLY="4.0 4.1"
tries those lines alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.spark.jvm.lines import LINES, version_number

ROOT = Path(__file__).parents[1]
JOB = """
from pathlib import Path
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
Path("in").mkdir()
Path("in/a.txt").write_text("one\\ntwo\\n")
lines = spark.readStream.text("in")
writer = lines.groupBy("value").count().writeStream.format("memory").queryName("counts")
query = writer.outputMode("complete").trigger(availableNow=True).start()
query.awaitTermination()
print(type(query).__module__, sorted(tuple(row) for row in spark.table("counts").collect()))
"""
EXPECTED = "penstock.api.query [('one', 1), ('two', 1)]"


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = folder.glob("penstock-*.whl")
    return wheel


class Environment:
    """A new virtual environment. Raises CalledProcessError if a command in it fails."""

    def __init__(self, python: str, folder: Path) -> None:
        self._folder = folder
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)

    def run(self, command: str, *arguments: str) -> str:
        """Run a command of the environment and return its standard output."""
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        ran = subprocess.run(
            [str(self._folder / "venv/bin" / command), *arguments],
            cwd=self._folder,
            env=inherited,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return ran.stdout

    def install(self, *what: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def pyspark(self) -> str:
        code = "from importlib.metadata import version; print(version('pyspark'))"
        return self.run("python", "-c", code).strip()


def check(line: str, python: str, wheel: Path, folder: Path) -> str:
    """Install and run Penstock beside a line's PySpark. Returns what was found, for people."""
    environment = Environment(python, folder)
    environment.install(f"pyspark=={line}.*", "setuptools")
    before = environment.pyspark()
    environment.install(str(wheel))
    after = environment.pyspark()
    if after != before:
        raise SystemExit(f"PySpark {before} was replaced by {after}")
    doctor = environment.run("penstock", "doctor").splitlines()[-1]
    (folder / "job.py").write_text(JOB)
    printed = environment.run("penstock", "run", "job.py").splitlines()
    if EXPECTED not in printed:
        raise SystemExit(f"PySpark {before}: the program printed {printed}, not {EXPECTED}")
    version = environment.run("python", "--version").strip()
    return f"PySpark {before} is kept, {version}. {doctor} The program ran on Penstock."


def main(python: str) -> None:
    lines = os.environ.get("ONLY", "").split() or sorted(LINES, key=version_number)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        for line in lines:
            home = Path(folder) / line
            home.mkdir()
            print(check(line, python, wheel, home), flush=True)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [sys.executable]))
