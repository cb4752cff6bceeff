"""How the command line shows things: every one as text and as JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from penstock.api.doctor import Diagnosis
    from penstock.testing.crash_report import CrashReport


class Output(ABC):
    """A way to show what the commands find out."""

    @abstractmethod
    def diagnosis(self, diagnosis: Diagnosis) -> None: ...

    @abstractmethod
    def crash_report(self, report: CrashReport) -> None: ...


class TextOutput(Output):
    """For people."""

    def __init__(self) -> None:
        self._console = Console()

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        for finding in diagnosis.findings:
            self._console.print(
                _mark(finding.is_good), f"[bold]{finding.subject}[/]", finding.found
            )
        if diagnosis.internals:
            self._console.print("[bold]Spark's internals[/]")
        for verdict in diagnosis.internals:
            self._console.print(
                " ",
                _mark(verdict.found),
                f"{verdict.class_name} [dim]{verdict.needed_for}[/]",
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


class JsonOutput(Output):
    """For programs: one JSON document."""

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        self._print(diagnosis.to_dict())

    def crash_report(self, report: CrashReport) -> None:
        self._print(report.to_dict())

    @staticmethod
    def _print(document: dict[str, Any]) -> None:
        print(json.dumps(document, indent=2))


def output_for(as_json: bool) -> Output:
    return JsonOutput() if as_json else TextOutput()


def _mark(good: bool) -> str:
    return "[green]✓[/]" if good else "[red]✗[/]"
