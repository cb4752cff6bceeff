"""The text output of `penstock checkpoint`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.tools.backup import Backup
from penstock.checkpoint.tools.compare import Difference
from penstock.checkpoint.tools.findings import Finding, Severity, Verification
from penstock.checkpoint.tools.fork import Fork
from penstock.checkpoint.tools.inspect import BatchDetail, BatchReport, CheckpointReport
from penstock.checkpoint.tools.keep import Kept
from penstock.checkpoint.tools.offset_text import ranges
from penstock.cli import checkpoint_cells as cells
from penstock.cli.tables import Column, no_break, print_line, print_table, print_wrapped, width_of
from penstock.redaction import DEFAULT_REDACTOR

_SHOWN_BATCHES = 10
_SHOWN_DIFF_LINES = 12
_SHOWN_RUN = 12
_PREFIX = "spark.sql."
_SEVERITY = {
    Severity.ERROR: ("red", "✗"),
    Severity.WARNING: ("yellow", "!"),
    Severity.INFO: ("cyan", "i"),
}
_SIGNS = {
    "create": ("green", "+"),
    "replace": ("yellow", "~"),
    "delete": ("red", "-"),
    "restore": ("green", "+"),
}


class CheckpointText:
    """Prints results to a console, with one method for each kind of result."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def checkpoint(self, report: CheckpointReport, *, all_batches: bool, settings: bool) -> None:
        self._summary(report)
        self._batches(report.batches if all_batches else report.batches[-_SHOWN_BATCHES:])
        hidden = 0 if all_batches else len(report.batches) - _SHOWN_BATCHES
        if hidden > 0:
            self._line(f"[dim]{hidden} earlier batches; --all shows them, `show DIR N` one.[/]")
        self._sources(report)
        self._sinks(report)
        self._operators(report)
        self._settings(report.settings, settings)
        self._sizes(report)

    def batch(self, detail: BatchDetail, *, settings: bool) -> None:
        self._batches([detail.batch])
        rows = []
        for name, end in detail.batch.offsets.items():
            start = "?" if detail.start is None else detail.start.get(name)
            rows.append(
                (escape(name), cells.plain(start), cells.plain(end), detail.batch.moved[name])
            )
        self._table(
            (*_columns("source"), *_columns("from", "to", breaks=True), *_columns("moved")), rows
        )
        self._positions(detail)
        if detail.reads_state_version is not None:
            reads = cells.retained(detail.reads_state_missing)
            writes = cells.retained(detail.writes_state_missing)
            self._line(
                f"[bold]State[/] reads version {detail.reads_state_version} ({reads}), "
                f"writes version {detail.writes_state_version} ({writes})"
            )
        for name, files in detail.files.items():
            self._line(f"[bold]Files of source {escape(name)}[/]")
            for file in files:
                print_line(self._console, Text(f"  {file}"))
        if detail.finished_sinks:
            self._line(f"[bold]Finished by the sinks[/] {escape(', '.join(detail.finished_sinks))}")
        if detail.commit is not None:
            self._line(f"[bold]Commit[/] {escape(str(dict(detail.commit)))}")
        if detail.batch.problem:
            self._line(f"[red]{escape(detail.batch.problem)}[/]")
        self._settings(detail.settings, settings)

    def verification(self, verification: Verification) -> None:
        for finding in verification.findings:
            self._finding(finding)
        what = f"batch {verification.next_batch}"
        if verification.will_restart:
            how = "runs again as it was planned" if verification.is_planned else "is planned next"
            self._line(f"[green]A restart will work:[/] {what} {how}.")
        else:
            self._line(f"[red]A restart will fail or lose data[/] (at {what}); see ✗ above.")

    def differences(self, left: str, right: str, differences: Sequence[Difference]) -> None:
        if not differences:
            self._line("[green]No difference that matters to a restart.[/]")
            return
        self._table(
            _columns("", ""), [("[dim]left[/]", escape(left)), ("[dim]right[/]", escape(right))]
        )
        columns = (*_columns(""), *_columns("left", "right", breaks=True))
        rows: list[tuple[str, ...]] = [(escape(d.subject), *cells.sides(d)) for d in differences]
        if any(d.distance for d in differences):
            columns = (*columns, *_columns("right - left"))
            rows = [(*row, d.distance or "") for row, d in zip(rows, differences, strict=True)]
        print_table(self._console, columns, rows)

    def plan(self, plan: dict[str, Any], backup: Backup | None, activity: str | None) -> None:
        self._changes(plan["changes"])
        if not plan["changes"]:
            self._line("[green]Nothing to do:[/] the command would not change the checkpoint.")
            return
        self._line(f"[bold]{escape(plan['outcome'])}[/]")
        for note in (*plan["warnings"], *([activity] if activity else [])):
            self._line(f"[yellow]![/] {escape(note)}")
        if backup is None:
            self._line("[bold]Nothing was changed.[/] Repeat with --yes to do it.")
        else:
            self._line(
                f"[green]Done.[/] Backup: {escape(str(backup.path))}. "
                "`penstock checkpoint undo` reverts it."
            )

    def fork(self, fork: Fork) -> None:
        self._line(f"[green]Forked[/] to {escape(str(fork.path))}, query id {fork.query_id}.")
        self._line(f"Its next batch is {fork.next_batch}.")
        for warning in fork.warnings:
            self._line(f"[yellow]![/] {escape(warning)}")

    def undone(self, backup: Backup, steps: Sequence[dict[str, Any]], *, is_done: bool) -> None:
        if is_done:
            self._line(f"[green]Undone:[/] {escape(backup.operation)}.")
            return
        self._changes([{**step, "diff": []} for step in steps])
        self._line(
            f"[bold]Would undo `{escape(backup.operation)}` of "
            f"{cells.time(backup.made_at_ms)} with these changes.[/] Nothing was changed. "
            "Repeat with --yes to do it."
        )

    def kept(self, root: str, kept: Kept, *, is_done: bool) -> None:
        operation = escape(kept.operation)
        check = escape(checkpoint_command("verify", root))
        if is_done:
            self._line(
                f"[green]Kept[/] as it is: `{operation}` counts as finished. Its backup stays in "
                f"{escape(str(kept.path))}. Check it: {check}"
            )
        else:
            self._line(
                f"[bold]Would keep the checkpoint as it is, and count `{operation}` as finished.[/]"
                " Nothing was changed. Repeat with --yes to do it."
            )

    def error(self, error: Exception) -> None:
        text = escape(DEFAULT_REDACTOR.text(str(error)))
        Console(file=sys.stderr).print(f"[red]Error:[/] {text}", soft_wrap=True)

    def _summary(self, report: CheckpointReport) -> None:
        if report.is_planned:
            following = f"{report.next_batch}, planned and not committed: it runs again"
        else:
            following = f"{report.next_batch}, yet to be planned"
        formats = (
            f"offset log {cells.versions(report.offset_log_versions)}, "
            f"commit log {cells.versions(report.commit_log_versions)}"
        )
        self._line(f"[bold]{escape(report.path)}[/]")
        rows = [
            ("query id", report.query_id or "[red]none[/]"),
            ("formats", formats),
            ("next batch", following),
            ("can rewind to", ranges(report.rewind_targets) or "no batch"),
        ]
        if report.in_use:
            rows.append(("in use", f"[yellow]{escape(report.in_use)}[/]"))
        if report.undoable:
            rows.append(("can undo", escape(", ".join(reversed(report.undoable)))))
        named = [(f"[dim]{name}[/]", value) for name, value in rows]
        self._table((*_columns(""), *_columns("", breaks=True)), named)

    def _batches(self, batches: Sequence[BatchReport]) -> None:
        if not batches:
            self._line("[dim]No batch yet.[/]")
            return
        rows = [
            (
                str(batch.id),
                cells.time(batch.planned_at_ms),
                cells.committed(batch),
                cells.watermark(batch),
                escape(", ".join(no_break(f"{name}: {how}") for name, how in batch.moved.items())),
            )
            for batch in batches
        ]
        firm = _columns("batch", "planned (UTC)", "committed")
        self._table((*firm, *_columns("watermark", "moved", breaks=True)), rows)

    def _sources(self, report: CheckpointReport) -> None:
        if not report.sources:
            return
        rows = []
        for source in report.sources:
            size = cells.byte_count(source.own_bytes)
            own = f"{source.own_files}, {size}" if source.own_files else "-"
            rows.append(
                (escape(source.name), source.kind, cells.words(source.offset), source.moved, own)
            )
        firm = _columns("last batch", "own files")
        self._table((*_columns("source", "kind"), Column("offset", breaks=True), *firm), rows)

    def _positions(self, detail: BatchDetail) -> None:
        """Print the partitions of Kafka sources, and the offsets of Delta and Iceberg in words."""
        rows = []
        for name, position in detail.positions.items():
            for one in position.get("partitions", ()):
                partition = escape(one["topic"]), str(one["partition"])
                bounds = cells.number(one["start"]), cells.number(one["end"])
                count = cells.count(one, is_known=detail.start is not None)
                rows.append((escape(name), *partition, *bounds, count))
            if "end" in position:
                start = "?" if detail.start is None else cells.words(detail.start.get(name))
                end = cells.words(detail.batch.offsets[name])
                self._line(f"Source {escape(name)}: from {start} to {end}")
        if rows:
            self._table(_columns("source", "topic", "partition", "from", "to", "count"), rows)

    def _sinks(self, report: CheckpointReport) -> None:
        if not report.sinks:
            return
        rows = []
        for sink in report.sinks:
            newest = "-" if sink.newest_batch is None else str(sink.newest_batch)
            planned = {True: "finished", False: "waits for it", None: "-"}[sink.has_planned_batch]
            known = escape(sink.name) if sink.is_in_query else f"{escape(sink.name)} (removed)"
            rows.append((known, newest, str(sink.entries), planned if sink.is_in_query else "-"))
        self._table(_columns("sink", "last batch", "entries", "planned batch"), rows)

    def _operators(self, report: CheckpointReport) -> None:
        if not report.operators:
            return
        rows = []
        for operator in report.operators:
            partitions = str(operator.partitions)
            if operator.recorded_partitions not in (None, operator.partitions):
                partitions += f" of {operator.recorded_partitions}"
            rows.append(
                (
                    str(operator.id),
                    escape(operator.name or "?"),
                    operator.provider,
                    partitions,
                    ", ".join(operator.stores),
                    ranges(operator.versions) or "[red]none[/]",
                    cells.byte_count(operator.bytes),
                )
            )
        firm = _columns("state", "operator", "provider", "partitions")
        self._table((*firm, *_columns("stores", "versions", breaks=True), *_columns("size")), rows)

    def _settings(self, settings: Mapping[str, str], are_wanted: bool) -> None:
        if not settings:
            return
        if not are_wanted:
            recorded = (
                "1 recorded setting" if len(settings) == 1 else f"{len(settings)} recorded settings"
            )
            self._line(f"[dim]{recorded}: --settings[/]")
            return
        self._line(f"[dim]recorded settings ({_PREFIX}...)[/]")
        for key in sorted(settings):
            name, value = key.removeprefix(_PREFIX), cells.short_class(settings[key])
            self._line(f"{escape(name)} [dim]=[/] {escape(value)}")
        self._console.print()

    def _sizes(self, report: CheckpointReport) -> None:
        parts = [f"{s.name} {cells.byte_count(s.bytes)} in {s.files} files" for s in report.sizes]
        self._line(f"[dim]{escape('; '.join(parts))}[/]")

    def _finding(self, finding: Finding) -> None:
        style, mark = _SEVERITY[finding.severity]
        self._line(f"[{style}]{mark}[/] [bold]{escape(finding.file)}[/]  {escape(finding.problem)}")
        rows = (
            ("Spark", finding.spark),
            ("Penstock", finding.penstock),
            ("Remedy", finding.remedy),
        )
        print_table(
            self._console,
            (*_columns(""), *_columns("", breaks=True)),
            [(f"   [dim]{name}[/]", escape(text)) for name, text in rows],
        )

    def _changes(self, changes: Sequence[dict[str, Any]]) -> None:
        """Print the changes, without the checksum files of deleted files; long runs are cut."""
        whole = ("delete", "restore")
        deleted = {change["path"] for change in changes if change["change"] in whole}
        own = [change for change in changes if _checked_file(change["path"]) not in deleted]
        for run in _runs(own):
            shown = run if len(run) <= _SHOWN_RUN else run[: _SHOWN_RUN - 1]
            for change in shown:
                self._change(change)
            if len(run) > _SHOWN_RUN:
                left_out = len(run) - len(shown)
                self._line(f"  [dim]... {left_out} more in the same directory; --json lists all[/]")

    def _change(self, change: dict[str, Any]) -> None:
        if change["change"] == "move":
            self._line(f"[cyan]>[/] move {escape(change['path'])} -> {escape(change['to'])}")
            return
        style, sign = _SIGNS[change["change"]]
        self._line(f"[{style}]{sign}[/] {change['change']} {escape(change['path'])}")
        for line in change["diff"][:_SHOWN_DIFF_LINES]:
            text = Text(f"    {line}", style="green" if line.startswith("+") else "red")
            if change["change"] == "delete" and (width := width_of(self._console)) is not None:
                text.truncate(width, overflow="ellipsis")
            print_wrapped(self._console, text, indent=4)

    def _table(self, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
        """Print a table and an empty line."""
        print_table(self._console, columns, rows)
        self._console.print()

    def _line(self, markup: str) -> None:
        print_wrapped(self._console, markup)


def _checked_file(path: str) -> str | None:
    """The file that a `.crc` file is the checksum of; None for any other file."""
    directory, slash, name = path.rpartition("/")
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return f"{directory}{slash}{name[1:-4]}" if is_checksum else None


def _runs(changes: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Groups of consecutive changes of one kind to files in one directory."""

    def group(change: dict[str, Any]) -> tuple[str, str]:
        return change["change"], change["path"].rpartition("/")[0]

    return [list(run) for _, run in groupby(changes, group)]


def _columns(*headings: str, breaks: bool = False) -> tuple[Column, ...]:
    return tuple(Column(heading, breaks) for heading in headings)
