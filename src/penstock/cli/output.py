"""The output of the command line: every result as text and as JSON."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.console import Console
from rich.text import Text

from penstock.cli.checkpoint_text import CheckpointText
from penstock.cli.quarantine_text import QuarantineText
from penstock.cli.tables import Column, print_table, print_wrapped
from penstock.redaction import DEFAULT_REDACTOR

if TYPE_CHECKING:
    from penstock.api.doctor import Diagnosis
    from penstock.checkpoint.tools.backup import Backup
    from penstock.checkpoint.tools.compare import Difference
    from penstock.checkpoint.tools.findings import Verification
    from penstock.checkpoint.tools.fork import Fork
    from penstock.checkpoint.tools.inspect import BatchDetail, CheckpointReport
    from penstock.checkpoint.tools.keep import Kept
    from penstock.checkpoint.tools.quarantine_files import QuarantinedBatch, QuarantineReport
    from penstock.debug.bisect_report import BisectReport
    from penstock.debug.quarantine_retry import RetryReport
    from penstock.testing.crash_report import CrashReport


_NOT_PRINTED = 2


class OutputLostError(typer.Exit):
    """A result could not be written to standard output. Ends the command with exit code 2."""


class Output(ABC):
    """Prints the results of the commands, with one method for each kind of result."""

    @abstractmethod
    def diagnosis(self, diagnosis: Diagnosis, *, verbose: bool = False) -> None: ...

    @abstractmethod
    def checkpoint(
        self, report: CheckpointReport, *, all_batches: bool, settings: bool
    ) -> None: ...

    @abstractmethod
    def batch(self, detail: BatchDetail, *, settings: bool) -> None: ...

    @abstractmethod
    def verification(self, verification: Verification) -> None: ...

    @abstractmethod
    def differences(self, left: str, right: str, differences: Sequence[Difference]) -> None: ...

    @abstractmethod
    def plan(self, plan: dict[str, Any], backup: Backup | None, activity: str | None) -> None:
        """Print the changes of a command; `backup` is None if they were not made."""

    @abstractmethod
    def fork(self, fork: Fork) -> None: ...

    @abstractmethod
    def undone(self, backup: Backup, steps: Sequence[dict[str, Any]], *, is_done: bool) -> None:
        """Print the changes of an undo, which were made if `is_done`."""

    @abstractmethod
    def kept(self, root: str, kept: Kept, *, is_done: bool) -> None:
        """Print the interrupted command that counts as finished, if `is_done`, or would."""

    @abstractmethod
    def unlocked(self, root: str, holders: Sequence[str], *, is_done: bool) -> None:
        """Print whose locks of a checkpoint were removed, if `is_done`, or would be."""

    @abstractmethod
    def crash_report(self, report: CrashReport) -> None: ...

    @abstractmethod
    def bisection(self, report: BisectReport) -> None: ...

    @abstractmethod
    def quarantine(self, report: QuarantineReport) -> None: ...

    @abstractmethod
    def quarantined(self, batch: QuarantinedBatch) -> None: ...

    @abstractmethod
    def retry(self, report: RetryReport) -> None: ...

    @abstractmethod
    def error(self, error: Exception) -> None: ...


class TextOutput(CheckpointText, QuarantineText, Output):
    """Prints text to a console."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console or _Console())

    def diagnosis(self, diagnosis: Diagnosis, *, verbose: bool = False) -> None:
        for finding in diagnosis.findings:
            self._console.print(
                "-" if finding.is_optional and not finding.is_good else _mark(finding.is_good),
                f"[bold]{finding.subject}[/]",
                Text(finding.found),
            )
        missing = [verdict for verdict in diagnosis.internals if not verdict.found]
        if diagnosis.internals:
            there = len(diagnosis.internals) - len(missing)
            self._console.print(
                _mark(not missing),
                "[bold]Spark's internals[/]",
                f"{there} of {len(diagnosis.internals)} classes found",
            )
        for verdict in diagnosis.internals if verbose else missing:
            self._console.print(
                " ",
                _mark(verdict.found),
                f"{verdict.class_name} [dim]{verdict.needed_for}[/]",
                *(f"[red]without {member}[/]" for member in verdict.missing),
                soft_wrap=True,
            )
        verdict_line = (
            "[green]Penstock can run here.[/]"
            if diagnosis.is_healthy
            else "[red]Penstock cannot run here; see the lines marked ✗.[/]"
        )
        self._console.print(verdict_line)

    def crash_report(self, report: CrashReport) -> None:
        headings, *rows = report.cells()
        breaks = len(headings) - 1
        columns = [Column(heading, number == breaks) for number, heading in enumerate(headings)]
        print_table(self._console, columns, [[Text(cell) for cell in row] for row in rows])
        self._console.print()
        for line in report.summary.splitlines():
            print_wrapped(self._console, Text(line))

    def bisection(self, report: BisectReport) -> None:
        print(report)

    def unlocked(self, root: str, holders: Sequence[str], *, is_done: bool) -> None:
        if not holders:
            print_wrapped(self._console, Text(f"{root} is not locked."))
        for holder in holders:
            what = "Removed the lock of" if is_done else "Would remove the lock of"
            print_wrapped(self._console, Text(f"{what} {holder}."))
        if holders and not is_done:
            advice = "Nothing was changed. Repeat with --yes if that process has ended."
            print_wrapped(self._console, Text(advice))

    def retry(self, report: RetryReport) -> None:
        print(report)


class JsonOutput(Output):
    """Prints one JSON document per command."""

    def diagnosis(self, diagnosis: Diagnosis, *, verbose: bool = False) -> None:
        self._print(diagnosis.to_dict())

    def crash_report(self, report: CrashReport) -> None:
        self._print(report.to_dict())

    def bisection(self, report: BisectReport) -> None:
        self._print(report.to_dict())

    def checkpoint(self, report: CheckpointReport, *, all_batches: bool, settings: bool) -> None:
        self._print(report.to_dict())

    def batch(self, detail: BatchDetail, *, settings: bool) -> None:
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

    def undone(self, backup: Backup, steps: Sequence[dict[str, Any]], *, is_done: bool) -> None:
        self._print({"undone": backup.to_dict(), "changes": list(steps), "isDone": is_done})

    def kept(self, root: str, kept: Kept, *, is_done: bool) -> None:
        self._print({"path": root, "kept": kept.to_dict(), "isDone": is_done})

    def unlocked(self, root: str, holders: Sequence[str], *, is_done: bool) -> None:
        self._print({"path": root, "holders": list(holders), "isDone": is_done})

    def retry(self, report: RetryReport) -> None:
        self._print(report.to_dict())

    def quarantine(self, report: QuarantineReport) -> None:
        self._print(report.to_dict())

    def quarantined(self, batch: QuarantinedBatch) -> None:
        self._print(batch.to_dict())

    def error(self, error: Exception) -> None:
        text = DEFAULT_REDACTOR.text(str(error))
        self._print({"error": text, "kind": type(error).__name__})

    @staticmethod
    def _print(document: dict[str, Any]) -> None:
        print(json.dumps(document, indent=2))


class _Console(Console):
    """A console that does not end the process when the reader of its output has gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class _Redacting:
    """Redacts secrets from the arguments of every method of an Output.

    The methods raise OutputLostError if standard output cannot be written.
    """

    def __init__(self, inner: Output) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._inner, name)

        def call(*shown: Any, **how: Any) -> None:
            redacted = DEFAULT_REDACTOR.record(shown)
            try:
                method(*redacted, **how)
                print(end="", flush=True)
            except OSError as exc:
                _give_up_output(exc)

        return call


def output_for(as_json: bool) -> Output:
    """The output of a command, which redacts secrets.

    Characters that standard output cannot encode are printed as escapes: a path may have any bytes.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return cast(Output, _Redacting(JsonOutput() if as_json else TextOutput()))


@contextlib.contextmanager
def after_change(*, is_done: bool = True) -> Iterator[None]:
    """Print the result of a command in the block. If a change is done, the command succeeds.

    Its success does not depend on standard output, whose reader may have gone.
    """
    try:
        yield
    except OutputLostError:
        if not is_done:
            raise
        with contextlib.suppress(OSError):
            typer.echo("penstock: the change was made, but its result was not printed", err=True)


def _give_up_output(error: OSError) -> None:
    """Raise OutputLostError, and discard what is left of standard output."""
    with contextlib.suppress(OSError):  # or the interpreter fails at its end, to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            typer.echo(f"penstock: standard output cannot be written: {error}", err=True)
    raise OutputLostError(_NOT_PRINTED) from error


def _mark(good: bool) -> str:
    return "[green]✓[/]" if good else "[red]✗[/]"
