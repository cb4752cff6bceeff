"""PySpark's own streaming tests on Penstock: `make test-pyspark SOURCE=path/to/apache/spark`.

SOURCE is a git repository of Apache Spark; its branch of the installed line of Spark is used. Every
test module runs with `penstock.install()`; if a test does not pass, also on Spark's own engine, for
comparison. The figures go into the table of `docs/compatibility.md`. Nothing of the repository is
kept. ONLY="streaming/test_streaming test_observation" runs those modules alone; the others keep
their figures.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from penstock.spark.jvm.lines import LINES, line_of, version_number

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
BEGIN = "<!-- pyspark: written by make test-pyspark -->"
END = "<!-- end of pyspark -->"
_ROW = re.compile(r"^\| (`[^|]+`) \|(.*)\|$", re.MULTILINE)

FOLDERS = ("python/pyspark/sql/tests", "python/pyspark/testing", "python/test_support")
MODULES = (
    "streaming/test_streaming",
    "streaming/test_streaming_foreach",
    "streaming/test_streaming_foreach_batch",
    "streaming/test_streaming_listener",
    "streaming/test_streaming_offline_state_repartition",
    "test_python_streaming_datasource",
    "test_observation",
    "test_sql_context",
    "test_context",
    "pandas/test_pandas_grouped_map_with_state",
    "pandas/test_pandas_transform_with_state",
    "pandas/streaming/test_pandas_transform_with_state",
    "pandas/streaming/test_pandas_transform_with_state_checkpoint_v2",
    "pandas/streaming/test_pandas_transform_with_state_state_variable",
    "pandas/streaming/test_pandas_transform_with_state_state_variable_checkpoint_v2",
    "pandas/streaming/test_transform_with_state",
    "pandas/streaming/test_transform_with_state_checkpoint_v2",
    "pandas/streaming/test_transform_with_state_state_variable",
    "pandas/streaming/test_transform_with_state_state_variable_checkpoint_v2",
    "pandas/streaming/test_tws_tester",
)
"""The modules that run streaming queries; a line has those that its branch has."""

_PATHS = """
import os
import pyspark, pyspark.sql
for package in (pyspark, pyspark.sql):
    package.__path__.append(os.path.join({root!r}, "python", *package.__name__.split(".")))
"""
_RUNNER = """
import json, sys, unittest
if {install}:
    import penstock
    penstock.install()
outcomes = {{}}
class Result(unittest.TestResult):
    def note(self, test, outcome):
        outcomes[str(test).split()[0]] = outcome
    def addSuccess(self, test):
        outcomes.setdefault(str(test).split()[0], "passed")
    def addSkip(self, test, reason):
        self.note(test, "skipped")
    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")
    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed")
    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(test, "failed")
result = Result()
unittest.defaultTestLoader.loadTestsFromName({module!r}).run(result)
for test, text in result.failures + result.errors:
    print(test, text, file=sys.stderr)
with open({report!r}, "w") as file:
    json.dump(outcomes, file)
"""


def export(source: Path, line: str, target: Path) -> None:
    """The test files of a line's branch, below `target`."""
    branch = f"branch-{line}"
    archive = subprocess.run(
        ["git", "-C", str(source), "archive", branch, *FOLDERS], capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"{source} has no {branch}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)


def run_module(root: Path, module: str, *, install: bool) -> Mapping[str, str]:
    """Run a module in a process of its own; test -> passed, skipped or failed."""
    # Read by every process, the Python workers of Spark too, which unpickle classes of the tests.
    (root / "sitecustomize.py").write_text(_PATHS.format(root=str(root)))
    report = root / "report.json"
    report.unlink(missing_ok=True)
    name = f"pyspark.sql.tests.{module.replace('/', '.')}"
    runner = root / "run_module.py"
    runner.write_text(_RUNNER.format(install=install, module=name, report=str(report)))
    with (root / "output.txt").open("w") as output:
        subprocess.run(
            [sys.executable, str(runner)],
            cwd=root,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,  # of the workers, which need pandas too
                "PYTHONPATH": _first_of_path(root),
                "SPARK_TESTING": "1",
            },
            stdout=output,
            stderr=output,
            check=False,
        )
    outcomes: dict[str, str] = json.loads(report.read_text()) if report.exists() else {}
    if install and (not outcomes or "failed" in outcomes.values()):
        print((root / "output.txt").read_text()[-20_000:], file=sys.stderr)
    return outcomes or {module: "failed"}


def _first_of_path(root: Path) -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(root), inherited] if inherited else [str(root)])


def row(module: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Sequence[str]:
    """The row of a module: how many tests, how many pass, and what becomes of the others."""
    differs = [
        f"{name} is {outcome}, {theirs.get(name, 'not there')} on Spark's engine"
        for name, outcome in ours.items()
        if outcome != "passed"
    ]
    passed = sum(outcome == "passed" for outcome in ours.values())
    return f"`{module}.py`", str(len(ours)), str(passed), "; ".join(differs)


def updated(page: str, line: str, figures: Mapping[str, str]) -> str:
    """The page with a line's figures, by file; other files and the other lines keep theirs."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    lines = sorted(LINES, key=version_number)
    rows = {
        match[1]: dict(zip(lines, map(str.strip, match[2].split("|")), strict=True))
        for match in _ROW.finditer(table)
    }
    for name, figure in figures.items():
        rows.setdefault(name, dict.fromkeys(lines, ""))[line] = figure
    head = [f"| file | {' | '.join(lines)} |", "|" + "---|" * (len(lines) + 1)]
    files = (f"`{module}.py`" for module in MODULES)
    known = [name for name in files if any(rows.get(name, {}).values())]
    body = [f"| {name} | {' | '.join(rows[name].values())} |" for name in known]
    return before + "\n".join([BEGIN, *head, *body, END]) + after


def main(source: str) -> int:
    line = line_of(pyspark.__version__).name
    console = Console()
    chosen = os.environ.get("ONLY", "").split() or MODULES
    unknown = [module for module in chosen if module not in MODULES]
    if unknown:
        console.print(f"ONLY names no module: {', '.join(unknown)}. Known: {', '.join(MODULES)}.")
        return 2
    figures = {f"`{module}.py`": "" for module in chosen}
    table = Table("module", "tests", "passed", "others", title=f"Spark {pyspark.__version__}")
    worse = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        export(Path(source), line, root)
        tests = root / "python/pyspark/sql/tests"
        for module in (m for m in chosen if (tests / f"{m}.py").exists()):
            ours = run_module(root, module, install=True)
            theirs = {}
            if any(outcome != "passed" for outcome in ours.values()):
                theirs = dict(run_module(root, module, install=False))
            cells = row(module, ours, theirs)
            console.print("| " + " | ".join(cells) + " |", soft_wrap=True)
            table.add_row(*cells)
            figures[cells[0]] = f"{cells[2]} of {cells[1]}"
            worse += sum(o == "failed" and theirs.get(n) == "passed" for n, o in ours.items())
    PAGE.write_text(updated(PAGE.read_text(), line, figures))
    console.print(table)
    console.print(f"{worse} tests pass on Spark's own engine and fail on Penstock.")
    return int(worse > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.pyspark_suite PATH_OF_A_SPARK_REPOSITORY")
    sys.exit(main(sys.argv[1]))
