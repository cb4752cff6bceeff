"""`make upgrades`: checkpoints of each line of Spark go on on every other line, on both engines.

Every line runs the first round of some programs on Spark's engine and on Penstock. Then every line
continues the checkpoints of all lines on either engine, after a commit and in the middle of a
batch. Penstock has to go on if Spark does, and to refuse what Spark refuses with its error. On a
later line a query that goes on has to have the rows of one that has always run there.
ONLY="3.5 4.3" takes those lines alone. Every line has its own environment (`make setup SPARK=...`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.spark.jvm.lines import LINES, NEWEST, version_number
from tests.upgrades.on_line import Continuation, prepare_inputs

ROOT = Path(__file__).parents[2]


def on_line(line: str, step: str, root: Path, *arguments: str) -> None:
    """Run a step in the environment of a line."""
    environment = ".venv" if line == NEWEST.name else f".venv-{line}"
    command = [f"{environment}/bin/python", "-m", "tests.upgrades.on_line", step, str(root)]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True)


def run(lines: Sequence[str], root: Path) -> list[Continuation]:
    prepare_inputs(root, 0)
    for line in lines:
        on_line(line, "begin", root)
    prepare_inputs(root, 1)
    found: list[Continuation] = []
    for line in lines:
        on_line(line, "go-on", root, *lines)
        reports = json.loads((root / f"{line}.json").read_text())
        found.extend(Continuation(**report) for report in reports)
    return found


def show(found: Sequence[Continuation], console: Console) -> None:
    table = Table("begun on", "went on on", "went on", "refused", "wrong")
    for before, after in sorted({(c.before, c.after) for c in found}):
        pair = [c for c in found if (c.before, c.after) == (before, after)]
        refused = sorted({c.program for c in pair if c.refused})
        table.add_row(
            before,
            after,
            str(sum(not c.refused for c in pair)),
            f"{sum(bool(c.refused) for c in pair)} {', '.join(refused)}".strip(),
            str(sum(bool(c.wrong) for c in pair)),
        )
    console.print(table)
    for reason in sorted({(c.before, c.after, c.program, c.refused) for c in found if c.refused}):
        console.print("{} on {}: {} is refused: {}".format(*reason), soft_wrap=True, markup=False)
    for c in (c for c in found if c.wrong):
        place = f"{c.program}, {c.before} on {c.after}, {c.route}"
        console.print(f"WRONG {place}: {c.refused}\n{c.wrong}", soft_wrap=True, markup=False)


def main() -> int:
    lines = os.environ.get("ONLY", "").split() or sorted(LINES, key=version_number)
    for line in lines:
        spark = [] if line == NEWEST.name else [f"SPARK={line}"]
        subprocess.run(["make", "setup", *spark], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        found = run(lines, Path(folder))
    show(found, Console())
    return int(any(c.wrong for c in found))


if __name__ == "__main__":
    sys.exit(main())
