"""How the command line shows things: every one as text and as JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from penstock.cli.checkpoint_text import CheckpointText

if TYPE_CHECKING:
    from penstock.api.bisect_report import BisectReport
    from penstock.api.doctor import Diagnosis
    from penstock.checkpoint.tools.backup import Backup
    from penstock.checkpoint.tools.compare import Difference
    from penstock.checkpoint.tools.findings import Verification
    from penstock.checkpoint.tools.fork import Fork
    from penstock.checkpoint.tools.inspect import BatchDetail, CheckpointReport
    from penstock.testing.crash_report import CrashReport


class Output(ABC):
    """A way to show what the commands find out."""

    @abstractmethod
    def diagnosis(self, diagnosis: Diagnosis) -> None: ...

    @abstractmethod
    def checkpoint(self, report: CheckpointReport, *, all_batches: bool) -> None: ...

    @abstractmethod
    def batch(self, detail: BatchDetail) -> None: ...

    @abstractmethod
    def verification(self, verification: Verification) -> None: ...

    @abstractmethod
    def differences(self, left: str, right: str, differences: Sequence[Difference]) -> None: ...

    @abstractmethod
    def plan(self, plan: dict[str, Any], backup: Backup | None, activity: str | None) -> None:
        """What a command changes; with a backup it has been done, without it could be."""

    @abstractmethod
    def fork(self, fork: Fork) -> None: ...

    @abstractmethod
    def undone(self, backup: Backup, *, is_done: bool) -> None: ...

    @abstractmethod
    def crash_report(self, report: CrashReport) -> None: ...

    @abstractmethod
    def bisection(self, report: BisectReport) -> None: ...

    @abstractmethod
    def error(self, error: Exception) -> None: ...


class TextOutput(CheckpointText, Output):
    """For people."""

    def __init__(self) -> None:
        super().__init__(Console())

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        for finding in diagnosis.findings:
            self._console.print(
                _mark(finding.is_good), f"[bold]{finding.subject}[/]", Text(finding.found)
            )
        if diagnosis.internals:
            self._console.print("[bold]Spark's internals[/]")
        for verdict in diagnosis.internals:
            self._console.print(
                " ",
                _mark(verdict.found),
                f"{verdict.class_name} [dim]{verdict.needed_for}[/]",
                *(f"[red]without {member}[/]" for member in verdict.missing),
                soft_wrap=True,
            )
        verdict_line = (
            "[green]Penstock runs here.[/]"
            if diagnosis.is_healthy
            else "[red]Penstock does not run here; see the lines marked ✗.[/]"
        )
        self._console.print(verdict_line)

    def crash_report(self, report: CrashReport) -> None:
        print(report)

    def bisection(self, report: BisectReport) -> None:
        print(report)


class JsonOutput(Output):
    """For programs: one JSON document."""

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        self._print(diagnosis.to_dict())

    def crash_report(self, report: CrashReport) -> None:
        self._print(report.to_dict())

    def bisection(self, report: BisectReport) -> None:
        self._print(report.to_dict())

    def checkpoint(self, report: CheckpointReport, *, all_batches: bool) -> None:
        self._print(report.to_dict())

    def batch(self, detail: BatchDetail) -> None:
        self._print(detail.to_dict())

    def verification(self, verification: Verification) -> None:
        self._print(verification.to_dict())

    def differences(self, left: str, right: str, differences: Sequence[Difference]) -> None:
        found = [difference.to_dict() for difference in differences]
        self._print({"left": left, "right": right, "differences": found})

    def plan(self, plan: dict[str, Any], backup: Backup | None, activity: str | None) -> None:
        done = {"isDone": backup is not None, "backup": str(backup.path) if backup else None}
        self._print(plan | {"activity": activity} | done)

    def fork(self, fork: Fork) -> None:
        self._print(fork.to_dict())

    def undone(self, backup: Backup, *, is_done: bool) -> None:
        self._print({"undone": backup.to_dict(), "isDone": is_done})

    def error(self, error: Exception) -> None:
        self._print({"error": str(error), "kind": type(error).__name__})

    @staticmethod
    def _print(document: dict[str, Any]) -> None:
        print(json.dumps(document, indent=2))


def output_for(as_json: bool) -> Output:
    return JsonOutput() if as_json else TextOutput()


def _mark(good: bool) -> str:
    return "[green]✓[/]" if good else "[red]✗[/]"
