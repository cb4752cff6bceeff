"""Damages parts of a checkpoint, while a query runs or between two runs, with either engine.

The query reads text files and writes parquet files; in the cases about state it also drops
duplicates. A case damages one part of the checkpoint in one way, lets the query run as far as it
can, restores the part where that is possible, and starts the query again. The second run reads two
files per batch instead of one, so that a batch which it plans again differs from the batch that
the sink may have under the same id.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock import write_stream
from tests.streams import LineFiles

PARTS = ("", "offsets", "commits", "sources", "state", "metadata")


class Damage(Enum):
    """What happens to the part, and how it is restored before the next start."""

    DELETED = "deleted"
    MOVED = "moved away and back"
    FILE = "replaced by a file"
    READ_ONLY = "read-only"


class Moment(Enum):
    """When the damage happens."""

    RUNNING = "while it runs"
    BETWEEN = "between two runs"


@dataclass(frozen=True)
class Case:
    """One part, damaged in one way at one moment."""

    part: str
    damage: Damage
    moment: Moment

    def __str__(self) -> str:
        return f"{self.part or 'checkpoint'} {self.damage.value} {self.moment.value}"


@dataclass(frozen=True)
class Outcome:
    """The result of the damage for the running query, and for the next start.

    `lost` counts the input lines that are missing from the final output, `twice` those that are in
    it more than once; `error` is the message of the first failure.
    """

    goes_on: bool
    restarts: bool
    lost: int
    twice: int
    error: str

    @property
    def text(self) -> str:
        """The cell of the table."""
        first = "goes on" if self.goes_on else "fails"
        if not self.restarts:
            return f"{first}; then refuses"
        rows = [
            f"**{self.lost} of 6 rows lost**" if self.lost else "",
            f"{self.twice} of 6 rows twice" if self.twice else "",
        ]
        return f"{first}; then {' and '.join(filter(None, rows)) or 'all rows once'}"

    @property
    def loses_silently(self) -> bool:
        return self.restarts and self.lost > 0


class Trial:
    """Runs one case with one engine, in its own directory."""

    def __init__(self, session: SparkSession, root: Path, case: Case, *, by_spark: bool) -> None:
        self._session = session
        self._case = case
        self._by_spark = by_spark
        self._files = LineFiles(root / "in")
        self._checkpoint = root / "checkpoint"
        self._aside = root / "aside"
        self._out = root / "out"
        self._part = self._checkpoint / case.part if case.part else self._checkpoint
        self._errors: list[str] = []
        self._starts = 0

    def run(self) -> Outcome:
        self._add(3)
        try:
            running = self._case.moment is Moment.RUNNING
            goes_on = self._damage_running() if running else self._damage_between()
        finally:
            self._repair()
        self._add(1)
        restarts = self._tries(self._run_available)
        rows = self._rows()
        return Outcome(
            goes_on,
            restarts,
            lost=sum(line not in rows for line in self._files.lines),
            twice=sum(rows.count(line) > 1 for line in self._files.lines),
            error=self._errors[0] if self._errors else "",
        )

    def _damage_running(self) -> bool:
        query = self._writer().start(str(self._out))
        try:
            query.processAllAvailable()
            self._damage()
            self._add(1)
            goes_on = self._tries(query.processAllAvailable)
            self._add(1)
            return self._tries(query.processAllAvailable) and goes_on
        finally:
            query.stop()

    def _damage_between(self) -> bool:
        self._run_available()
        self._damage()
        self._add(2)
        return self._tries(self._run_available)

    def _run_available(self) -> None:
        writer = self._writer().trigger(availableNow=True)
        writer.start(str(self._out)).awaitTermination()

    def _writer(self) -> Any:
        self._starts += 1
        stream = self._files.stream(self._session, at_most=min(self._starts, 2))
        if self._case.part == "state":
            stream = stream.dropDuplicates(["value"])
        writer = stream.writeStream if self._by_spark else write_stream(stream)
        return writer.format("parquet").option("checkpointLocation", str(self._checkpoint))

    def _tries(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as exc:
            self._errors.append(str(exc))
            return False
        return True

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._files.add(f"line {len(self._files.lines)}")

    def _rows(self) -> list[str]:
        frame = self._session.read.schema("value string").parquet(str(self._out))
        return [row.value for row in frame.collect()]

    def _damage(self) -> None:
        match self._case.damage:
            case Damage.DELETED:
                _remove(self._part)
            case Damage.MOVED:
                self._part.rename(self._aside)
            case Damage.FILE:
                self._part.rename(self._aside)
                self._part.write_text("not what was here")
            case Damage.READ_ONLY:
                mount_read_only(self._part)

    def _repair(self) -> None:
        if self._case.damage is Damage.READ_ONLY:
            unmount(self._part)
        elif self._aside.exists():
            # Remove what was created in its place, as a restored mount would hide it.
            _remove(self._part)
            self._aside.rename(self._part)


def mount_read_only(path: Path) -> None:
    """Make a file or directory read-only for root too. Raises CalledProcessError if not allowed."""
    subprocess.run(["mount", "--bind", str(path), str(path)], check=True, capture_output=True)
    remount = ["mount", "-o", "remount,bind,ro", str(path)]
    subprocess.run(remount, check=True, capture_output=True)


def unmount(path: Path) -> None:
    """Unmount lazily, even if files are in use. Does nothing if nothing is mounted."""
    subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)


def may_mount(directory: Path) -> bool:
    """Whether this machine permits a mount."""
    try:
        mount_read_only(directory)
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        with contextlib.suppress(OSError):
            unmount(directory)
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
