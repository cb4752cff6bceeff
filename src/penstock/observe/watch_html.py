"""Renders queries as HTML, for notebooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from penstock.observe import figures
from penstock.observe.snapshot import PHASES, QuerySnapshot
from penstock.observe.watch_views import View

COLOURS = dict(
    zip(
        PHASES,
        ("#56b4e9", "#56b4e9", "#e69f00", "#0072b2", "#cc79a7", "#009e73", "#999999"),
        strict=True,
    )
)
"""The colours of the phases, distinguishable with colour blindness (Okabe and Ito's palette)."""

_HEADINGS = (
    "query",
    "batch",
    "rows/s in",
    "rows/s processed",
    "lag",
    "last batch",
    "watermark",
    "state",
)


class HtmlView(View):
    """A table in the output of a notebook cell that is replaced at each update."""

    def __init__(self, show_html: Callable[[str], None]) -> None:
        self._show_html = show_html

    def show(self, snapshots: Sequence[QuerySnapshot]) -> None:
        self._show_html(html_table(snapshots))


def notebook_view() -> HtmlView | None:
    """A view in the output of the current notebook cell; None outside a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    display = import_module("IPython.display")
    handle = display.display(display.HTML(html_table(())), display_id=True)
    return HtmlView(lambda html: handle.update(display.HTML(html)))


def html_table(snapshots: Sequence[QuerySnapshot]) -> str:
    """All queries as one table with inline styles and no external resources."""
    if not snapshots:
        return "<i>no query yet</i>"
    rows = "".join(_row(snapshot) for snapshot in snapshots)
    notes = "".join(_notes(snapshot) for snapshot in snapshots)
    return f"{_table(_HEADINGS, rows)}{notes}{_key()}"


def html_snapshot(snapshot: QuerySnapshot) -> str:
    """One query as the table of `html_table`, followed by its sources, sink and checkpoint."""
    rows = "".join(
        _cells(
            escape(source.description),
            f"{source.input_rows} rows",
            *(
                escape(offset or figures.NOTHING)
                for offset in (source.start_offset, source.end_offset)
            ),
            escape(source.latest_offset or figures.NOTHING),
            figures.count(source.lag),
        )
        for source in snapshot.sources
    )
    sources = _table(("source", "last batch", "from", "to", "latest", "lag"), rows) if rows else ""
    written = "".join(
        _cells(escape(sink.name), escape(sink.description), sink.status, f"{sink.duration_ms} ms")
        for sink in snapshot.sinks
    )
    sinks = _table(("sink", "description", "last batch", "took"), written) if written else ""
    places = (("sink", snapshot.sink), ("checkpoint", snapshot.checkpoint), ("id", snapshot.id))
    shown = "".join(f"<div>{name}: <code>{escape(place)}</code></div>" for name, place in places)
    return html_table((snapshot,)) + sources + sinks + shown


def _table(headings: Sequence[str], rows: str) -> str:
    head = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in headings)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(*cells: str) -> str:
    shown = "".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells)
    return f"<tr>{shown}</tr>"


def _row(snapshot: QuerySnapshot) -> str:
    return _cells(
        f"<b>{escape(snapshot.label)}</b> {snapshot.condition}",
        figures.NOTHING if snapshot.batch_id is None else str(snapshot.batch_id),
        figures.count(snapshot.input_rows_per_second),
        figures.count(snapshot.processed_rows_per_second),
        figures.lag(snapshot),
        f"{_bar(snapshot)} {figures.duration(snapshot.batch_duration_ms)}",
        figures.watermark(snapshot),
        figures.state(snapshot),
    )


def _bar(snapshot: QuerySnapshot) -> str:
    parts = "".join(
        f"<span title='{escape(phase)} {snapshot.phases[phase]} ms' style='display:inline-block;"
        f"height:0.8em;width:{width}px;background:{COLOURS.get(phase, '#666')}'></span>"
        for phase, width in figures.phase_shares(snapshot.phases, 120)
    )
    return f"<span style='white-space:nowrap'>{parts}</span>"


def _notes(snapshot: QuerySnapshot) -> str:
    candidates = (figures.pace(snapshot), figures.blocker(snapshot), snapshot.error)
    notes = [note for note in candidates if note is not None]
    return "".join(f"<div><b>{escape(snapshot.label)}</b>: {escape(note)}</div>" for note in notes)


def _key() -> str:
    parts = (
        f"<span style='color:{COLOURS[phase]}'>&#9632;</span> {phase}&ensp;"
        for phase in PHASES
        if phase != "getOffset"
    )
    return f"<small>{''.join(parts)}</small>"
