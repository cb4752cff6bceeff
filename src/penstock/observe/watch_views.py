"""Views of the queries: a live table in a terminal, and lines of text elsewhere."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.observe import figures
from penstock.observe.snapshot import PHASES, BatchSnapshot, QuerySnapshot, SinkSnapshot

_BAR_WIDTH = 16
_UNLIMITED = 10_000
_COLOURS = dict(
    zip(PHASES, ("cyan", "cyan", "yellow", "blue", "magenta", "green", "bright_black"), strict=True)
)
_CONDITIONS = {
    "starting": "cyan",
    "running": "green",
    "stopping": "yellow",
    "restarting": "bold yellow",
    "ended": "dim",
    "failed": "bold red",
}


class View(ABC):
    """An output that shows snapshots. Used by one thread."""

    @abstractmethod
    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        """Show these snapshots in place of the previous ones."""

    def close(self) -> None:
        """Release the output. `show` is not called after this."""


class TableView(View):
    """A table at the bottom of a terminal; the output of the program is printed above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(
            console=console or Console(stderr=True),
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()

    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        self._live.update(table(snapshots), refresh=True)

    def close(self) -> None:
        self._live.stop()


def table(snapshots: Sequence[QuerySnapshot]) -> RenderableType:
    """The table of all queries, with the legend of the bars and the problems below it."""
    if not snapshots:
        return Text("no query yet", style="dim")
    notes = [note for snapshot in snapshots for note in _notes(snapshot)]
    return Group(_FittedTable(snapshots), *notes)


@dataclass(frozen=True)
class _Column:
    """A column of the table. Columns of low priority are left out where there is no room."""

    heading: str
    priority: int
    cell: Callable[[QuerySnapshot], RenderableType]
    justify: Literal["left", "right"] = "left"


class _FittedTable:
    """The table with as many columns as fit the width, none of them cut."""

    def __init__(self, snapshots: Sequence[QuerySnapshot]) -> None:
        self._snapshots = snapshots

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns: list[_Column] = []
        for column in sorted(_COLUMNS, key=lambda column: -column.priority):
            wider = [other for other in _COLUMNS if other in columns or other is column]
            if not columns or self._width(console, options, wider) <= options.max_width:
                columns = wider
        yield self._table(columns)
        if any(column.cell is _phases for column in columns):
            yield _key(self._snapshots)

    def _width(self, console: Console, options: ConsoleOptions, columns: Sequence[_Column]) -> int:
        unlimited = options.update(max_width=_UNLIMITED)
        return console.measure(self._table(columns), options=unlimited).maximum

    def _table(self, columns: Sequence[_Column]) -> Table:
        grid = Table(expand=False, pad_edge=False, show_edge=False)
        for column in columns:
            grid.add_column(column.heading, justify=column.justify, no_wrap=True)
        for snapshot in self._snapshots:
            grid.add_row(*(column.cell(snapshot) for column in columns))
        return grid


def _query(snapshot: QuerySnapshot) -> Text:
    condition = Text(f" {snapshot.condition}", style=_CONDITIONS[snapshot.condition])
    return Text(snapshot.label, style="bold").append_text(condition)


def _batch(snapshot: QuerySnapshot) -> str:
    return figures.NOTHING if snapshot.batch_id is None else str(snapshot.batch_id)


def _phases(snapshot: QuerySnapshot) -> Text:
    return bar(snapshot)


_COLUMNS = (
    _Column("query", 9, _query),
    _Column("batch", 5, _batch, "right"),
    _Column("rows/s\nin", 2, lambda s: figures.count(s.input_rows_per_second), "right"),
    _Column("rows/s\nprocessed", 3, lambda s: figures.count(s.processed_rows_per_second), "right"),
    _Column("lag", 6, lambda s: figures.count(s.lag), "right"),
    _Column("lag\ntime", 0, figures.lag_time, "right"),
    _Column("phases", 1, _phases),
    _Column("last\nbatch", 7, lambda s: figures.duration(s.batch_duration_ms), "right"),
    _Column("watermark", 8, figures.watermark),
    _Column("state", 4, figures.state),
)


def bar(snapshot: QuerySnapshot) -> Text:
    """The phases of the last batch as a bar, each with a length proportional to its time."""
    text = Text()
    for phase, cells in figures.phase_shares(snapshot.phases, _BAR_WIDTH):
        text.append("█" * cells, style=_COLOURS.get(phase, "white"))
    return text


def _notes(snapshot: QuerySnapshot) -> list[Text]:
    notes = [_sink_line(snapshot, sink) for sink in snapshot.sinks]
    if (pace := figures.pace(snapshot)) is not None:
        notes.append(Text(f"{snapshot.label}: {pace}", style="dim"))
    if (blocker := figures.blocker(snapshot)) is not None:
        notes.append(Text(f"{snapshot.label}: {blocker}", style="yellow"))
    if snapshot.restarts:
        notes.append(Text(f"{snapshot.label}: restarted {snapshot.restarts} times", style="yellow"))
    if snapshot.error is not None:
        first_line = snapshot.error.split("\n", 1)[0]
        notes.append(Text(f"{snapshot.label}: {first_line}", style="red", overflow="ellipsis"))
    return notes


def _sink_line(snapshot: QuerySnapshot, sink: SinkSnapshot) -> Text:
    retries = f", {sink.retries} retries so far" if sink.retries else ""
    took = f" in {figures.duration(sink.duration_ms)}" if sink.attempts else ""
    return Text(f"{snapshot.label} -> {sink.name}: {sink.status}{took}{retries}", style="dim")


def _key(snapshots: Sequence[QuerySnapshot]) -> Text:
    used = {phase for snapshot in snapshots for phase, ms in snapshot.phases.items() if ms}
    key = Text()
    for phase in PHASES:
        if phase in used:
            key.append("█", style=_COLOURS[phase]).append(f" {phase}  ", style="dim")
    return key


class LinesView(View):
    """Prints a line for each batch and for each change of condition."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._seen: dict[str, tuple[str, int]] = {}

    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        for snapshot in snapshots:
            condition, batch_id = self._seen.get(snapshot.run_id, ("", -1))
            for batch in snapshot.batches:
                if batch.batch_id > batch_id:
                    self._print(
                        f"{snapshot.label} batch {batch.batch_id}: {_line(snapshot, batch)}"
                    )
                    batch_id = batch.batch_id
            if snapshot.condition != condition:
                error = f": {snapshot.error}" if snapshot.condition == "failed" else ""
                self._print(f"{snapshot.label} is {snapshot.condition}{error}")
            self._seen[snapshot.run_id] = snapshot.condition, batch_id

    def _print(self, line: str) -> None:
        print(f"penstock: {line}", file=self._stream, flush=True)


def _line(snapshot: QuerySnapshot, batch: BatchSnapshot) -> str:
    """The text of a batch; pace, lag, watermark and state are added for the last batch only."""
    parts = [f"{batch.input_rows} rows in {figures.duration(batch.duration_ms)}"]
    if batch.output_rows is not None:
        parts.append(f"{batch.output_rows} rows out")
    if batch is snapshot.batches[-1]:
        if (pace := figures.pace(snapshot)) is not None:
            parts.append(pace)
        if snapshot.lag is not None:
            parts.append(f"lag {figures.lag(snapshot)}")
        if snapshot.watermark is not None:
            parts.append(f"watermark {figures.watermark(snapshot)}")
        if (blocker := figures.blocker(snapshot)) is not None:
            parts.append(blocker)
        if snapshot.state_rows is not None:
            parts.append(f"state {figures.state(snapshot)}")
    return ", ".join(parts)
