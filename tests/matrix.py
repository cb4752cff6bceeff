"""`make matrix`: the test suite on every line of Spark, as a table here and in the documentation.

Each line has its own environment, made by `make setup SPARK=...`. ONLY="4.0 4.1" runs those lines
alone, ARGS reaches pytest; what is not run keeps the row of its last run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.spark.jvm.lines import LINES, NEWEST, version_number

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN = "<!-- matrix: written by make matrix -->"
END = "<!-- end of matrix -->"
HEADINGS = ("Spark", "passed", "failed", "skipped", "minutes", "date")
_ROW = re.compile(r"^\| (\d+\.\d+)[^|]*\|.*\|$", re.MULTILINE)
_LINE_IN_REASON = re.compile(r".*: ((?:since|until) Spark [\d.]+)")


@dataclass(frozen=True)
class Outcome:
    """The test run of one line. `skipped` counts the skipped tests by reason."""

    line: str
    version: str
    passed: int
    failed: Sequence[str]
    skipped: Mapping[str, int]
    seconds: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()))
        return (
            f"{self.line} ({self.version})",
            str(self.passed),
            str(len(self.failed)),
            reasons or "none",
            f"{self.seconds / 60:.0f}",
            date.today().isoformat(),
        )


def run(line: str, arguments: str) -> Outcome:
    """Set up a line and run its tests; what they print goes to this process's output."""
    spark = [] if line == NEWEST.name else [f"SPARK={line}"]
    subprocess.run(["make", "setup", *spark], cwd=ROOT, check=True)
    environment = ROOT / (f".venv-{line}" if spark else ".venv")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        began = time.monotonic()
        subprocess.run(
            ["make", "test", *spark, f"ARGS=--junitxml={report} {arguments}"], cwd=ROOT, check=False
        )
        seconds = time.monotonic() - began
        if not report.exists():
            raise SystemExit(f"the tests on Spark {line} did not run; see above")
        return read_report(line, _pyspark_version(environment), report.read_text(), seconds)


def _pyspark_version(environment: Path) -> str:
    command = [str(environment / "bin/python"), "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def read_report(line: str, version: str, report: str, seconds: float) -> Outcome:
    """The outcome of a test run from its JUnit report."""
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            skipped[_reason(skip.get("message", ""))] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        else:
            passed += 1
    return Outcome(line, version, passed, failed, skipped, seconds)


def _reason(message: str) -> str:
    """Why a test was skipped; for what a line lacks, only which line has it."""
    match = _LINE_IN_REASON.fullmatch(message)
    return match[1] if match else message


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    table = Table(*HEADINGS)
    for outcome in outcomes:
        table.add_row(*outcome.cells, style="red" if outcome.failed else None)
    console.print(table)
    for outcome in outcomes:
        for name in outcome.failed:
            console.print(f"Spark {outcome.line}: failed {name}", style="red")


def updated(page: str, outcomes: Sequence[Outcome]) -> str:
    """The page with the rows of these outcomes; other lines keep the rows they have."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {match[1]: match[0] for match in _ROW.finditer(table)}
    rows.update({outcome.line: f"| {' | '.join(outcome.cells)} |" for outcome in outcomes})
    ordered = [rows[line] for line in sorted(rows, key=version_number)]
    head = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return before + "\n".join([BEGIN, *head, *ordered, END]) + after


def main() -> int:
    console = Console()
    chosen = os.environ.get("ONLY", "").split() or sorted(LINES, key=version_number)
    unknown = [line for line in chosen if line not in LINES]
    if unknown:
        console.print(
            f"ONLY names no line of Spark: {', '.join(unknown)}. Known: {', '.join(LINES)}."
        )
        return 2
    outcomes = []
    for line in chosen:
        outcomes.append(run(line, os.environ.get("ARGS", "")))
        # Written now, so that it is not lost if a later line is interrupted.
        PAGE.write_text(updated(PAGE.read_text(), outcomes))
    show(outcomes, console)
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
