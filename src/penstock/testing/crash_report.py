"""The report of a crash test: the output of the sink after each crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.engine.faults import FaultPoint
from penstock.testing.crash_faults import BatchPoint
from penstock.testing.rows import RowDifference, row_key

_ROWS_SHOWN = 3


class Verdict(str, Enum):
    """The effect of a crash on the output; the last of these that applies."""

    EXACTLY_ONCE = "exactly once"
    DUPLICATES = "duplicates"
    LOST = "lost"
    DID_NOT_RECOVER = "did not recover"


@dataclass(frozen=True)
class Trial:
    """One crash, the restart after it, and the differences in the final output.

    `crashed_at` is the fault point and the batch of the crash. `delivered_again` are the batches
    that were written to the sink both before and after the crash. `duplicates` are the rows that
    are in the output more often than without a crash, `lost` those that are in it less often.
    `error` is the error of the restart, None if it succeeded. `shared` is true if the restart was
    not run because another crash had left the same files.
    """

    crashed_at: BatchPoint
    delivered_again: tuple[int, ...] = ()
    duplicates: tuple[Any, ...] = ()
    lost: tuple[Any, ...] = ()
    error: str | None = None
    shared: bool = False

    @classmethod
    def of(
        cls,
        crashed_at: BatchPoint,
        delivered_again: tuple[int, ...],
        expected: Sequence[Any],
        actual: Sequence[Any],
        *,
        shared: bool = False,
    ) -> Trial:
        """The trial with the output `actual`, where the output without a crash is `expected`."""
        difference = RowDifference.between(expected, actual)
        duplicates, lost = tuple(difference.extra), tuple(difference.missing)
        return cls(crashed_at, delivered_again, duplicates, lost, shared=shared)

    @property
    def verdict(self) -> Verdict:
        """The effect of the crash on the output."""
        if self.error is not None:
            return Verdict.DID_NOT_RECOVER
        if self.lost:
            return Verdict.LOST
        return Verdict.DUPLICATES if self.duplicates else Verdict.EXACTLY_ONCE

    def describe(self) -> str:
        """The verdict with the rows or the error that show it, in one line."""
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
            **({"sink": self.crashed_at.nth} if self.crashed_at.nth > 1 else {}),
            "deliveredAgain": list(self.delivered_again),
            "verdict": self.verdict.value,
            "duplicates": [repr(row) for row in self.duplicates],
            "lost": [repr(row) for row in self.lost],
            "error": self.error,
            "sharedRestart": self.shared,
        }


@dataclass(frozen=True)
class CrashReport:
    """The result of `crash_test`: one trial for each crash. `str()` formats it as a table.

    `not_passed` are the fault points of every query that this one did not reach, `not_tried` the
    crashes that were not run because the test was interrupted. `expected_rows` is the number of
    rows in the output without a crash.
    """

    trials: Sequence[Trial]
    not_passed: Sequence[FaultPoint]
    expected_rows: int
    not_tried: Sequence[BatchPoint] = ()

    @property
    def is_exactly_once(self) -> bool:
        """Whether a crash was tried, and the output was the same after each."""
        verdicts = {trial.verdict for trial in self.trials}
        return verdicts == {Verdict.EXACTLY_ONCE}

    def check(self) -> None:
        """Raise AssertionError, with the table as its message, unless `is_exactly_once`."""
        __tracebackhide__ = True
        if not self.is_exactly_once:
            what = "a crash changes the output" if self.trials else "no crash was tried"
            raise AssertionError(f"{what}\n\n{self}")

    def cells(self) -> list[tuple[str, str, str, str]]:
        """The rows of the table, the headings first."""
        table = [("crash at", "batch", "delivered again", "output")]
        for trial in self.trials:
            batch_id = trial.crashed_at.batch_id
            nth = f", sink {trial.crashed_at.nth}" if trial.crashed_at.nth > 1 else ""
            table.append(
                (
                    trial.crashed_at.point.value + nth,
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
        """The text below the table: the number of trials by verdict, and what was not tried."""
        counts = {
            verdict: sum(trial.verdict is verdict for trial in self.trials) for verdict in Verdict
        }
        found = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
        crashes = "1 crash" if len(self.trials) == 1 else f"{len(self.trials)} crashes"
        text = f"{self.expected_rows} rows without a crash; {crashes}: {found or 'none tried'}."
        shared = sum(trial.shared for trial in self.trials)
        if shared:
            text += (
                f"\n{shared} of them left the same files as another crash and share its restart."
            )
        if self.not_tried:
            total = len(self.trials) + len(self.not_tried)
            text += f"\nInterrupted: {len(self.trials)} of {total} crashes were tried."
        if self.not_passed:
            text += f"\nNot reached: {', '.join(point.value for point in self.not_passed)}."
        return text

    def to_dict(self) -> dict[str, Any]:
        return {
            "exactlyOnce": self.is_exactly_once,
            "expectedRows": self.expected_rows,
            "trials": [trial.to_dict() for trial in self.trials],
            "notPassed": [point.value for point in self.not_passed],
            "notTried": [str(passage) for passage in self.not_tried],
        }


def _sample(rows: Sequence[Any]) -> str:
    unique = list({row_key(row): row for row in rows}.values())
    shown = ", ".join(repr(row) for row in unique[:_ROWS_SHOWN])
    return shown if len(unique) <= _ROWS_SHOWN else f"{shown}, ..."


def _in_one_line(error: str) -> str:
    """The exit code and the last line of an error, where a traceback has its message."""
    lines = error.splitlines()
    return error if len(lines) < 2 else f"{lines[0].partition(': ')[0]}: {lines[-1]}"
