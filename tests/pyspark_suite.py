"""PySpark's own streaming tests on Penstock: `make test-pyspark SOURCE=path/to/apache/spark`.

SOURCE is a git repository of Apache Spark; its branch of the installed line of Spark is used. Every
test module runs with `penstock.install()`; tests that do not pass also on Spark's own engine, for
comparison. The figures go into the table of `docs/compatibility.md`. Nothing of the repository is
kept. ONLY="streaming/test_streaming test_observation" runs those modules alone; the others keep
their figures. A module that runs longer than LIMIT seconds, 1800 by default, is killed; its tests
that had finished count.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from penstock.spark.jvm.lines import LINES, version_number
from tests.installed_spark import installed_line

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
import json, os, sys, unittest
if {install}:
    import penstock
    penstock.install()
def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else [test]
def name_of(test):
    return str(test).split()[0]
suite = unittest.defaultTestLoader.loadTestsFromName({module!r})
chosen = [test for test in tests_of(suite) if name_of(test) in {only!r}]
suite = unittest.TestSuite(chosen) if chosen else suite
report = dict(tests=list(map(name_of, tests_of(suite))), outcomes=dict(), is_done=False)
def save():
    with open({report!r} + ".new", "w") as file:
        json.dump(report, file)
    os.replace({report!r} + ".new", {report!r})
class Result(unittest.TestResult):
    def note(self, test, outcome):
        report["outcomes"][name_of(test)] = outcome
        save()
    def addSuccess(self, test):
        self.note(test, report["outcomes"].get(name_of(test), "passed"))
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
save()
result = Result()
suite.run(result)
report["is_done"] = True
save()
for test, text in result.failures + result.errors:
    print(test, text, file=sys.stderr)
"""

NOT_FINISHED = "not finished"


@dataclass(frozen=True)
class ModuleRun:
    """The run of a module. `killed_after` is the limit in seconds, if it was killed at it."""

    outcomes: Mapping[str, str]
    """By test: passed, skipped, failed or not finished."""
    killed_after: int | None = None

    @property
    def finished(self) -> int:
        return sum(outcome != NOT_FINISHED for outcome in self.outcomes.values())

    @property
    def passed(self) -> int:
        return sum(outcome == "passed" for outcome in self.outcomes.values())

    @property
    def figure(self) -> str:
        """The figure in the table of the documentation."""
        killed = "" if self.killed_after is None else f", killed after {self.killed_after} s"
        return f"{self.passed} of {len(self.outcomes)}{killed}"


def export(source: Path, line: str, target: Path) -> None:
    """The test files of a line's branch, below `target`."""
    branch = f"branch-{line}"
    archive = subprocess.run(
        ["git", "-C", str(source), "archive", branch, *FOLDERS], capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"{source} has no {branch}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)


def run_module(
    root: Path, module: str, limit: int, *, install: bool, only: Sequence[str] = ()
) -> ModuleRun:
    """Run a module in a process of its own, which is killed after `limit` seconds.

    `only` names the tests to run; if the module has none of them, all run.
    """
    # Read by every process, the Python workers of Spark too, which unpickle classes of the tests.
    (root / "sitecustomize.py").write_text(_PATHS.format(root=str(root)))
    report = root / "report.json"
    report.unlink(missing_ok=True)
    name = f"pyspark.sql.tests.{module.replace('/', '.')}"
    runner = root / "run_module.py"
    runner.write_text(
        _RUNNER.format(install=install, module=name, report=str(report), only=list(only))
    )
    is_killed = _run_process(runner, limit)
    run = read_run(report, module, limit if is_killed else None)
    if install and set(run.outcomes.values()) & {"failed", NOT_FINISHED}:
        print((root / "output.txt").read_text()[-20_000:], file=sys.stderr)
    return run


def _run_process(runner: Path, limit: int) -> bool:
    """Run a script; True if it was killed, with the processes that it has started."""
    root = runner.parent
    with (root / "output.txt").open("w") as output:
        process = subprocess.Popen(
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
            start_new_session=True,
        )
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return False


def read_run(report: Path, module: str, killed_after: int | None) -> ModuleRun:
    """What a module has reported, which it does after each test.

    One that has reported nothing, because it cannot be imported, counts as one test.
    """
    if not report.exists():
        outcome = "failed" if killed_after is None else NOT_FINISHED
        return ModuleRun({module: outcome}, killed_after)
    told = json.loads(report.read_text())
    unfinished = {} if told["is_done"] else dict.fromkeys(told["tests"], NOT_FINISHED)
    return ModuleRun({**unfinished, **told["outcomes"]}, killed_after)


def _first_of_path(root: Path) -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(root), inherited] if inherited else [str(root)])


def row(module: str, ours: ModuleRun, theirs: ModuleRun) -> Sequence[str]:
    """The row of a module: how many tests, how many pass, and what becomes of the others."""
    total = len(ours.outcomes)
    others = [
        f"{name} is {outcome}, {theirs.outcomes.get(name, 'not there')} on Spark's engine"
        for name, outcome in ours.outcomes.items()
        if outcome not in ("passed", NOT_FINISHED)
    ]
    others += [*_early_end(ours, ""), *_early_end(theirs, " on Spark's engine")]
    return f"`{module}.py`", str(total), str(ours.passed), "; ".join(others)


def _early_end(run: ModuleRun, engine: str) -> list[str]:
    """How many tests had finished, if not all had when the process ended."""
    finished = f"{run.finished} of {len(run.outcomes)} tests had finished when it"
    if run.killed_after is not None:
        return [f"{finished} was killed{engine}, at its limit of {run.killed_after} s"]
    return [f"{finished} ended{engine}"] if run.finished < len(run.outcomes) else []


def count_worse(ours: ModuleRun, theirs: ModuleRun) -> int:
    """How many tests pass on Spark's engine and do not on Penstock."""
    return sum(
        outcome in ("failed", NOT_FINISHED) and theirs.outcomes.get(name) == "passed"
        for name, outcome in ours.outcomes.items()
    )


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
    line = installed_line().name
    limit = int(os.environ.get("LIMIT") or 1800)
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
            ours = run_module(root, module, limit, install=True)
            others = [name for name, outcome in ours.outcomes.items() if outcome != "passed"]
            theirs = ModuleRun({})
            if others:
                theirs = run_module(root, module, limit, install=False, only=others)
            cells = row(module, ours, theirs)
            console.print("| " + " | ".join(cells) + " |", soft_wrap=True)
            table.add_row(*cells)
            figures[cells[0]] = ours.figure
            worse += count_worse(ours, theirs)
    PAGE.write_text(updated(PAGE.read_text(), line, figures))
    console.print(table)
    console.print(f"{worse} tests pass on Spark's own engine and not on Penstock.")
    return int(worse > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.pyspark_suite PATH_OF_A_SPARK_REPOSITORY")
    sys.exit(main(sys.argv[1]))
