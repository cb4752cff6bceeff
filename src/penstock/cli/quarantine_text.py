"""The text output of `penstock quarantine`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from penstock.checkpoint.quarantine_log import BatchFailure, LeftOutPart
from penstock.checkpoint.timestamps import to_the_second
from penstock.checkpoint.tools.quarantine_files import QuarantinedBatch, QuarantineReport
from penstock.cli.tables import Column, print_line, print_table


class QuarantineText:
    """Prints what batches leave out to a console."""

    _console: Console

    def quarantine(self, report: QuarantineReport) -> None:
        if report.batches:
            columns = [Column(name) for name in ("batch", "time", "parts", "state", "copied to")]
            rows = [_cells(batch) for batch in report.batches]
            print_table(self._console, columns, [[Text(cell) for cell in row] for row in rows])
        else:
            print_line(self._console, Text("No batch leaves anything out."))
        for failure in report.failures:
            print_line(self._console, Text(_failure_line(failure)))
        for problem in report.problems:
            print_line(self._console, Text(f"A failure is not readable: {problem}"))

    def quarantined(self, batch: QuarantinedBatch) -> None:
        if batch.record is None:
            print_line(self._console, Text(batch.problem or ""))
            return
        print_line(
            self._console,
            Text(f"Batch {batch.batch_id}, {_state(batch)}, copied to {batch.record.path}"),
        )
        for number, part in enumerate(batch.parts):
            for line in _part_lines(number, part):
                print_line(self._console, Text(line))


def _cells(batch: QuarantinedBatch) -> tuple[str, ...]:
    if batch.record is None:
        return str(batch.batch_id), "", "?", "not readable", batch.problem or ""
    time = to_the_second(batch.record.time_ms)
    parts = str(len(batch.parts))
    return str(batch.batch_id), time, parts, _state(batch), batch.record.path


def _state(batch: QuarantinedBatch) -> str:
    return "committed" if batch.is_committed else "not committed"


def _part_lines(number: int, part: LeftOutPart) -> list[str]:
    lines = [f"part {number}  {part.description}"]
    if part.file is not None:
        size = "" if part.bytes is None else f", {part.bytes} bytes"
        lines.append(f"  file   {part.file}{size}")
    else:
        lines.append(f"  after  {'the beginning' if part.start is None else part.start}")
        lines.append(f"  up to  {part.end}")
    lines.append(f"  error  {part.error}")
    return lines


def _failure_line(failure: BatchFailure) -> str:
    time = to_the_second(failure.time_ms)
    return f"Batch {failure.batch_id} failed at {time}: {failure.error}"
