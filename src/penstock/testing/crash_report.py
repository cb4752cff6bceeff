"""What became of a sink in every crash: the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.engine.faults import FaultPoint
from penstock.testing.crash_faults import Passage
from penstock.testing.rows import RowDifference, row_key

_ROWS_SHOWN = 3


class Verdict(str, Enum):
    """What a crash did to the output; the worst of what it did."""

    EXACTLY_ONCE = "exactly once"
    DUPLICATES = "duplicates"
    LOST = "lost"
    DID_NOT_RECOVER = "did not recover"


@dataclass(frozen=True)
class Trial:
    """One crash, the restart after it, and the output in the end.

    `delivered_again` are the batches that the sink took before the crash and again after it.
    `duplicates` are rows that are there more often than without a crash, or only with it; `lost`
    are rows that are not there, or not often enough. `error` is why the restart failed. `shared`
    says that the restart is that of another crash, which had left the same behind.
    """

    crashed_at: Passage
    delivered_again: tuple[int, ...] = ()
    duplicates: tuple[Any, ...] = ()
    lost: tuple[Any, ...] = ()
    error: str | None = None
    shared: bool = False

    @classmethod
    def of(
        cls,
        crashed_at: Passage,
        delivered_again: tuple[int, ...],
        expected: Sequence[Any],
        actual: Sequence[Any],
        *,
        shared: bool = False,
    ) -> Trial:
        """The trial whose output is `actual`, where without a crash it is `expected`."""
        difference = RowDifference.between(expected, actual)
        duplicates, lost = tuple(difference.extra), tuple(difference.missing)
        return cls(crashed_at, delivered_again, duplicates, lost, shared=shared)

    @property
    def verdict(self) -> Verdict:
        if self.error is not None:
            return Verdict.DID_NOT_RECOVER
        if self.lost:
            return Verdict.LOST
        return Verdict.DUPLICATES if self.duplicates else Verdict.EXACTLY_ONCE

    def describe(self) -> str:
        """The verdict with its evidence, on one line."""
        if self.error is not None:
            return f"did not recover: {_in_one_line(self.error)}"
        found = []
        if self.lost:
            found.append(f"{len(self.lost)} lost: {_sample(self.lost)}")
        if self.duplicates:
            batches = ", ".join(map(str, self.delivered_again))
            of_batch = f" of batch {batches}" if batches else ""
            kind = "duplicate" if len(self.duplicates) == 1 else "duplicates"
            found.append(f"{len(self.duplicates)} {kind}{of_batch}: {_sample(self.duplicates)}")
        return "; ".join(found) or Verdict.EXACTLY_ONCE.value

    def to_dict(self) -> dict[str, Any]:
        return {
            "point": self.crashed_at.point.value,
            "batch": self.crashed_at.batch_id,
            "delivered_again": list(self.delivered_again),
            "verdict": self.verdict.value,
            "duplicates": [repr(row) for row in self.duplicates],
            "lost": [repr(row) for row in self.lost],
            "error": self.error,
            "shared_restart": self.shared,
        }


@dataclass(frozen=True)
class CrashReport:
    """Every crash that was tried. `str()` is the matrix.

    `not_passed` are points that the run without a crash did not come by, `not_tried` those at
    which it was not crashed because the test was interrupted.
    """

    trials: Sequence[Trial]
    not_passed: Sequence[FaultPoint]
    expected_rows: int
    not_tried: Sequence[Passage] = ()

    @property
    def is_exactly_once(self) -> bool:
        """Whether no crash that was tried made a difference to the output."""
        return all(trial.verdict is Verdict.EXACTLY_ONCE for trial in self.trials)

    def check(self) -> None:
        """Raise an AssertionError with the matrix if a crash made a difference."""
        __tracebackhide__ = True
        if not self.is_exactly_once:
            raise AssertionError(f"a crash makes a difference to the output\n\n{self}")

    def cells(self) -> list[tuple[str, str, str, str]]:
        """The matrix, its headings first."""
        table = [("crash at", "batch", "delivered again", "output")]
        for trial in self.trials:
            batch_id = trial.crashed_at.batch_id
            table.append(
                (
                    trial.crashed_at.point.value,
                    "-" if batch_id < 0 else str(batch_id),
                    ", ".join(f"batch {again}" for again in trial.delivered_again) or "-",
                    trial.describe(),
                )
            )
        return table

    def __str__(self) -> str:
        table = self.cells()
        widths = [max(len(line[column]) for line in table) for column in range(3)]
        lines = [
            "  ".join(
                [*(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)), line[3]]
            )
            for line in table
        ]
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        counts = {
            verdict: sum(trial.verdict is verdict for trial in self.trials) for verdict in Verdict
        }
        told = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
        crashes = "1 crash" if len(self.trials) == 1 else f"{len(self.trials)} crashes"
        text = f"{self.expected_rows} rows without a crash; {crashes}: {told or 'none tried'}."
        shared = sum(trial.shared for trial in self.trials)
        if shared:
            text += (
                f"\n{shared} of them left the same behind as another one: these share the restart."
            )
        if self.not_tried:
            total = len(self.trials) + len(self.not_tried)
            text += f"\nInterrupted: {len(self.trials)} of {total} crashes were tried."
        if self.not_passed:
            text += f"\nNot passed: {', '.join(point.value for point in self.not_passed)}."
        return text

    def to_dict(self) -> dict[str, Any]:
        return {
            "exactly_once": self.is_exactly_once,
            "expected_rows": self.expected_rows,
            "trials": [trial.to_dict() for trial in self.trials],
            "not_passed": [point.value for point in self.not_passed],
            "not_tried": [str(passage) for passage in self.not_tried],
        }


def _sample(rows: Sequence[Any]) -> str:
    unique = list({row_key(row): row for row in rows}.values())
    shown = ", ".join(repr(row) for row in unique[:_ROWS_SHOWN])
    return shown if len(unique) <= _ROWS_SHOWN else f"{shown}, ..."


def _in_one_line(error: str) -> str:
    """Of several lines the last, which is where a traceback says what it is, with the exit code."""
    lines = error.splitlines()
    return error if len(lines) < 2 else f"{lines[0].partition(': ')[0]}: {lines[-1]}"
