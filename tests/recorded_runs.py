"""The log of long runs in docs/reliability.md: a row for each, and what they add up to.

`RECORD=1 make crash N=100` and `RECORD=1 make simulate N=1000000` add a row when they have ended,
whatever their result. With the seed and the commit of a row its run can be repeated.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- runs: written with RECORD=1 -->"
END = "<!-- end of runs -->"
HEADINGS = ("command", "date", "commit", "seed", "done", "problems", "minutes")
_ROW = re.compile(r"^\| (`[^|]+\|.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class RecordedRun:
    """A run of a command. `done` counts what it did, `unit` says what that is: kills, schedules."""

    command: str
    date: str
    commit: str
    seed: int
    done: int
    unit: str
    problems: int
    minutes: int

    @property
    def row(self) -> str:
        cells = (
            f"`{self.command}`",
            self.date,
            self.commit,
            str(self.seed),
            f"{self.done:,} {self.unit}",
            str(self.problems),
            str(self.minutes),
        )
        return f"| {' | '.join(cells)} |"

    @classmethod
    def of(cls, cells: Sequence[str]) -> RecordedRun:
        """The run of a row's cells."""
        command, day, commit, seed, done, problems, minutes = cells
        count, _, unit = done.partition(" ")
        return cls(
            command.strip("`"),
            day,
            commit,
            int(seed),
            int(count.replace(",", "")),
            unit,
            int(problems),
            int(minutes),
        )


def record_if_wanted(
    command: str, seed: int, done: int, unit: str, problems: int, seconds: float
) -> None:
    """Add a run to the page, if the environment has RECORD=1."""
    if os.environ.get("RECORD") == "1":
        today = date.today().isoformat()
        minutes = round(seconds / 60)
        run = RecordedRun(command, today, _commit(), seed, done, unit, problems, minutes)
        PAGE.write_text(updated(PAGE.read_text(), run))


def updated(page: str, run: RecordedRun) -> str:
    """The page with one more run, and the sums of all."""
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no section between {BEGIN!r} and {END!r}")
    runs = [RecordedRun.of(match[1].split(" | ")) for match in _ROW.finditer(table)]
    runs.append(run)
    head = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    lines = [BEGIN, *head, *(run.row for run in runs), "", f"In all: {_sums(runs)}.", END]
    return before + "\n".join(lines) + after


def _sums(runs: Sequence[RecordedRun]) -> str:
    units = dict.fromkeys(run.unit for run in runs)
    done = {unit: sum(run.done for run in runs if run.unit == unit) for unit in units}
    problems = sum(run.problems for run in runs)
    found = "1 problem" if problems == 1 else f"{problems} problems"
    return ", ".join([*(f"{done[unit]:,} {unit}" for unit in units), found])


def _commit() -> str:
    """The commit that is checked out, with a plus sign if files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "tests")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
