"""Writes the table of figures in docs/benchmark.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reports import update_section
from workloads import WORKLOADS, Workload

_BEGIN, _END = "<!-- bench: written by make bench -->", "<!-- end of bench -->"

Cells = Callable[[dict[str, Any], Workload, str], tuple[str, bool]]


def update_page(results: dict[str, Any], path: Path, cells_of: Cells, notes: Sequence[str]) -> None:
    """Write the table to the page."""
    update_section(path, _BEGIN, _END, _table(results, cells_of, notes))


def _table(results: dict[str, Any], cells_of: Cells, notes: Sequence[str]) -> str:
    lines = [
        "Ratio of Penstock to Spark and to Spark tuned: median and spread of the rounds, on "
        f"{results['machine']}.",
        "Below 1 is less time, except where a higher figure is better (≥).",
        "",
        "| | / Spark | / Spark tuned | size, rounds, date |",
        "|---|---|---|---|",
    ]
    for name, entry in results["workloads"].items():
        cells = []
        for peer in ("spark", "tuned"):
            text, met = cells_of(entry, WORKLOADS[name], peer)
            cells.append(text if met else f"{text}: **missed**")
        when = f"{entry['mode']}, {entry['rounds']}, {entry['date']}"
        lines.append(f"| {WORKLOADS[name].title} | {' | '.join(cells)} | {when} |")
    return "\n".join([*lines, *(f"\n{note}" for note in notes)])
