"""`make scale`: how the time of a trigger grows, with Spark's engine and with Penstock.

Every point is measured in a new process, the engines in turns. Writes bench/scale.json,
docs/images/scale.png and the table in docs/scaling.md. QUICK=1 leaves the largest size of each
dimension out, ONLY="queries files" selects dimensions, ROUNDS=n measures each point n times and
takes the median; what is not measured keeps its figures.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from engines import session_for
from matplotlib.ticker import StrMethodFormatter
from reports import MACHINE, figures_of, print_figures, update_section
from rich.console import Console
from scaling import DIMENSIONS, Dimension
from workloads import QUICK, Bench

HERE = Path(__file__).parent
RESULTS = HERE / "scale.json"
PAGE = HERE.parent / "docs" / "scaling.md"
PICTURE = PAGE.parent / "images" / "scale.png"
BEGIN, END = "<!-- scale: written by make scale -->", "<!-- end of scale -->"
ENGINES = {"spark": "Spark", "penstock": "Penstock"}
TURN_SECONDS = 10.0
"""Longer than a trigger of the largest size."""

_COLOURS = {"spark": "#8a8a8a", "penstock": "#e07b39"}
console = Console()

Figures = dict[str, float]
Points = dict[str, dict[str, Figures]]
"""The figures by engine and size."""


def measure_here(engine: str, name: str, size: int) -> Figures:
    """Measure one point, in this process."""
    with tempfile.TemporaryDirectory(prefix="penstock-scale-") as folder:
        spark = session_for(engine, Path(folder) / "spark.log", {})
        figures = DIMENSIONS[name].run(Bench(spark, engine, Path(folder), QUICK), size)
        spark.stop()
    return figures


def measure(engines: Sequence[str], name: str, size: int) -> dict[str, Figures]:
    """Measure one point of each engine, in new processes."""
    turn = TURN_SECONDS if DIMENSIONS[name].in_turns else None
    return figures_of(HERE / "scale.py", engines, name, str(size), turn_seconds=turn)


def medians(rounds: list[Figures]) -> Figures:
    names = [name for name in rounds[0] if all(name in r for r in rounds)]
    return {name: statistics.median(r[name] for r in rounds) for name in names}


def measure_dimension(name: str, sizes: tuple[int, ...], rounds: int) -> dict[str, Any]:
    points: Points = {engine: {} for engine in ENGINES}
    for size in sizes:
        found: dict[str, list[Figures]] = {engine: [] for engine in ENGINES}
        for number in range(rounds):
            order = list(ENGINES) if number % 2 == 0 else list(ENGINES)[::-1]
            for engine, figures in measure(order, name, size).items():
                found[engine].append(figures)
        for engine, measured in found.items():
            points[engine][str(size)] = medians(measured)
        shown = ", ".join(f"{e} {_time_cell(points[e], str(size))} ms" for e in ENGINES)
        console.print(f"  [dim]{name} {size}: {shown}[/]")
    return {"date": date.today().isoformat(), "rounds": rounds, "points": points}


def draw(results: dict[str, Any], path: Path) -> None:
    """One plot for each dimension, both axes logarithmic."""
    names = [name for name in DIMENSIONS if name in results["dimensions"]]
    columns, rows = min(len(names), 4), (len(names) + 3) // 4
    size = (2 + 2.8 * columns, 0.6 + 2.9 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        _draw_dimension(axis, DIMENSIONS[name], results["dimensions"][name]["points"])
    axes[0][0].legend(frameon=False, fontsize=9)
    figure.suptitle(f"Median ms per trigger ({results['date']})")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_dimension(axis: Any, dimension: Dimension, points: Points) -> None:
    sizes = [int(size) for size in points["penstock"]]
    for engine, title in ENGINES.items():
        times = [figures.get("trigger_ms", math.nan) for figures in points[engine].values()]
        axis.plot(sizes, times, marker="o", markersize=4, label=title, color=_COLOURS[engine])
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.set_ylim(bottom=10, top=max(1000, 1.3 * axis.get_ylim()[1]))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.minorticks_off()
    axis.set_title(dimension.title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def table(results: dict[str, Any]) -> str:
    """A row for each point: the time of a trigger, its growth, and the other figures."""
    lines = [
        f"Medians on {results['machine']}. In brackets is how much longer a trigger takes than "
        "with the smallest size.",
        "",
        "| | size | Spark: ms | Penstock: ms | Spark, others | Penstock, others |",
        "|---|---|---|---|---|---|",
    ]
    for name, entry in results["dimensions"].items():
        points: Points = entry["points"]
        for size in points["spark"]:
            cells = [_time_cell(points[engine], size) for engine in ENGINES]
            cells += [_other_cell(points[engine][size]) for engine in ENGINES]
            title = f"{DIMENSIONS[name].title} ({entry['rounds']}, {entry['date']})"
            lines.append(f"| {title} | {int(size):,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _time_cell(points: dict[str, Figures], size: str) -> str:
    smallest = next(iter(points.values()))["trigger_ms"]
    here = points[size].get("trigger_ms")
    return "-" if here is None else f"{here:.0f} ({here - smallest:+.0f})"


_OTHERS = {
    "memory_mb": "{:.0f} MB",
    "first_batch_s": "first batch {:.1f} s",
    "started": "{:.0f} started",
    "restart_s": "restart {:.1f} s",
    "start_s": "start {:.1f} s",
    "stop_s": "stop {:.1f} s",
    "jvm_threads": "{:.0f} JVM threads",
    "python_threads": "{:.0f} Python threads",
}


def _other_cell(figures: Figures) -> str:
    return ", ".join(text.format(figures[key]) for key, text in _OTHERS.items() if key in figures)


def write(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    draw(results, PICTURE)
    update_section(PAGE, BEGIN, END, table(results))


def main() -> None:
    if len(sys.argv) == 4:
        engine, name, size = sys.argv[1:]
        print_figures(measure_here(engine, name, int(size)))
        return
    chosen = os.environ.get("ONLY", "").split() or list(DIMENSIONS)
    if unknown := set(chosen) - set(DIMENSIONS):
        sys.exit(f"unknown in ONLY: {', '.join(unknown)}; known are {', '.join(DIMENSIONS)}")
    rounds = int(os.environ.get("ROUNDS", "1"))
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = results.setdefault("dimensions", {})
    for name in chosen:
        sizes = DIMENSIONS[name].sizes
        if os.environ.get("QUICK"):
            sizes = sizes[:-1]
        known[name] = measure_dimension(name, sizes, rounds)
        results |= {
            "date": date.today().isoformat(),
            "machine": MACHINE,
            "dimensions": {n: known[n] for n in DIMENSIONS if n in known},
        }
        write(results)


if __name__ == "__main__":
    main()
