"""The queries in a terminal as a table that updates, and elsewhere as lines."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.api import figures
from penstock.api.snapshot import PHASES, BatchSnapshot, QuerySnapshot

_BAR_WIDTH = 20
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
    """A place where snapshots are shown. Used by one thread."""

    @abstractmethod
    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        """Show these in place of what was shown before."""

    def close(self) -> None:
        """Nothing more will be shown."""


class TableView(View):
    """A table that stays at the bottom of a terminal. What the program prints goes above it."""

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
    """All queries, with what is wrong with them and a key to the bars below."""
    if not snapshots:
        return Text("no query yet", style="dim")
    grid = Table(expand=False, pad_edge=False)
    for heading in ("query", "batch", "rows/s\nin", "rows/s\nprocessed", "lag"):
        grid.add_column(heading, justify="left" if heading == "query" else "right", no_wrap=True)
    for heading in ("last batch", "watermark", "state"):
        grid.add_column(heading, no_wrap=heading == "last batch")
    for snapshot in snapshots:
        grid.add_row(*_cells(snapshot))
    notes = [note for snapshot in snapshots for note in _notes(snapshot)]
    return Group(grid, *notes, _key(snapshots))


def _cells(snapshot: QuerySnapshot) -> list[RenderableType]:
    condition = Text(f" {snapshot.condition}", style=_CONDITIONS[snapshot.condition])
    return [
        Text(snapshot.label, style="bold").append_text(condition),
        figures.NOTHING if snapshot.batch_id is None else str(snapshot.batch_id),
        figures.count(snapshot.input_rows_per_second),
        figures.count(snapshot.processed_rows_per_second),
        figures.count(snapshot.lag),
        bar(snapshot).append(f" {figures.duration(snapshot.batch_duration_ms)}"),
        figures.watermark(snapshot),
        figures.state(snapshot),
    ]


def bar(snapshot: QuerySnapshot) -> Text:
    """The phases of the last batch, each as long as its share of the time."""
    text = Text()
    for phase, cells in figures.phase_shares(snapshot.phases, _BAR_WIDTH):
        text.append("█" * cells, style=_COLOURS.get(phase, "white"))
    return text


def _notes(snapshot: QuerySnapshot) -> list[Text]:
    notes = []
    if (blocker := figures.blocker(snapshot)) is not None:
        notes.append(Text(f"{snapshot.label}: {blocker}", style="yellow"))
    if snapshot.restarts:
        notes.append(Text(f"{snapshot.label}: restarted {snapshot.restarts} times", style="yellow"))
    if snapshot.error is not None:
        first_line = snapshot.error.split("\n", 1)[0]
        notes.append(Text(f"{snapshot.label}: {first_line}", style="red", overflow="ellipsis"))
    return notes


def _key(snapshots: Sequence[QuerySnapshot]) -> Text:
    used = {phase for snapshot in snapshots for phase, ms in snapshot.phases.items() if ms}
    key = Text()
    for phase in PHASES:
        if phase in used:
            key.append("█", style=_COLOURS[phase]).append(f" {phase}  ", style="dim")
    return key


class LinesView(View):
    """A line for each batch, and one for each change of condition."""

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
    """A batch in words; lag, watermark and state only where it is the last one."""
    parts = [f"{batch.input_rows} rows in {figures.duration(batch.duration_ms)}"]
    if batch.output_rows is not None:
        parts.append(f"{batch.output_rows} rows out")
    if batch is snapshot.batches[-1]:
        if snapshot.lag is not None:
            parts.append(f"lag {figures.count(snapshot.lag)}")
        if snapshot.watermark is not None:
            parts.append(f"watermark {figures.watermark(snapshot)}")
        if (blocker := figures.blocker(snapshot)) is not None:
            parts.append(blocker)
        if snapshot.state_rows is not None:
            parts.append(f"state {figures.state(snapshot)}")
    return ", ".join(parts)
