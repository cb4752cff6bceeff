"""`make bench`: compares the engines, in turns of a few seconds, as ratios with their spread.

Writes bench/results.json, docs/images/bench.png and the table in docs/benchmark.md. QUICK=1 reduces
all sizes, ROUNDS=n sets the number of rounds, ONLY="stateless join" selects workloads. A workload
that is not measured keeps the figures of its last run, with their date and size.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from engines import ENGINES, TITLES
from page import update_page
from plot import draw
from reports import MACHINE, figures_of
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PICTURE = HERE.parent / "docs" / "images" / "bench.png"
PEERS = ("spark", "tuned")
TURN_SECONDS = 3.0
console = Console()


def measure(engines: Sequence[str], name: str, size: str) -> dict[str, dict[str, Any]]:
    """Run a workload in a new process for each engine and return its figures by engine."""
    turn = TURN_SECONDS if name == "growth" or WORKLOADS[name].in_turns else None
    return figures_of(HERE / "worker.py", engines, name, size, turn_seconds=turn)


def alternate(name: str, size: str, rounds: int) -> list[dict[str, dict[str, Any]]]:
    """Measure all engines in each round, in a rotating order, so that none is always first."""
    measured = []
    for number in range(rounds):
        order = ENGINES[number % 3 :] + ENGINES[: number % 3]
        measured.append(measure(order, name, size))
        shown = ", ".join(
            f"{TITLES[e]} {measured[-1][e][WORKLOADS[name].figure]:,.1f}" for e in ENGINES
        )
        console.print(f"  [dim]{name}: round {number + 1} of {rounds}: {shown}[/]")
    return measured


def ratios(workload: Workload, rounds: list[dict[str, dict[str, Any]]], peer: str) -> list[float]:
    """The figure of Penstock divided by that of the peer, for each round."""
    return [r["penstock"][workload.figure] / r[peer][workload.figure] for r in rounds]


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if len(ordered) >= 4:
        low, _, high = statistics.quantiles(ordered, n=4)
    return {"median": statistics.median(ordered), "low": low, "high": high}


def cells_of(entry: dict[str, Any], workload: Workload, peer: str) -> tuple[str, bool]:
    """The text of a ratio with its spread, and whether it meets the target."""
    ratio = entry["ratios"][peer]
    target = workload.targets[0 if peer == "spark" else 1]
    median = ratio["median"]
    met = median >= target if workload.higher_is_better else median <= target
    sign = "≥" if workload.higher_is_better else "≤"
    return f"{median:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f}), target {sign} {target:g}", met


def show(results: dict[str, Any]) -> None:
    table = Table("measure", "Penstock / Spark", "Penstock / Spark tuned", "Penstock")
    for name, entry in results["workloads"].items():
        cells = []
        for peer in PEERS:
            text, met = cells_of(entry, WORKLOADS[name], peer)
            cells.append(f"[{'green' if met else 'red'}]{text}[/]")
        table.add_row(WORKLOADS[name].title, *cells, f"{entry['figures']['penstock']:.1f}")
    console.print(table)
    for line in notes(results):
        console.print(line)


def notes(results: dict[str, Any]) -> list[str]:
    """Lines for the figures that are not ratios of engines."""
    found = []
    if "files" in results["workloads"]:
        drift = results["workloads"]["files"]["last_to_first"]
        shown = ", ".join(f"{TITLES[e]} {drift[e]:.2f}" for e in ENGINES)
        found.append(
            "Small files, time of the last tenth of the batches relative to the second tenth: "
            f"{shown}."
        )
    for name in ("stateless", "windowed", "rocksdb"):
        if name in results["workloads"]:
            found.append(_share_of_spark(results["workloads"][name], WORKLOADS[name].title))
    for engine, entry in results.get("growth", {}).items():
        at = ", ".join(f"{n}: {ms:.0f} ms" for n, ms in entry["trigger_ms_at"].items())
        found.append(f"Time per trigger by batch, {TITLES[engine]}: {at}.")
    return found


def _share_of_spark(entry: dict[str, Any], title: str) -> str:
    """How much of a trigger of Penstock is planning and job."""
    phases = entry["phases"]["penstock"]
    sparks = phases["queryPlanning"] + phases["addBatch"]
    whole = entry["figures"]["penstock"]
    text = (
        f"Penstock, {title}: {sparks:.0f} of the {whole:.0f} ms of a trigger are Spark's planning "
        "and job"
    )
    if "bare_ms" in entry:
        bare = entry["bare_ms"]["penstock"]
        text += f"; a batch job of Spark with the same rows and sink takes {bare:.0f} ms"
    return f"{text}."


def measure_workload(name: str, size: str, rounds: int, cache: dict[Any, Any]) -> dict[str, Any]:
    workload = WORKLOADS[name]
    key = (workload.run, tuple(workload.conf.items()))
    if key not in cache:
        cache[key] = alternate(name, size, rounds)
    measured = cache[key]

    def median(engine: str, figure: str) -> float:
        return float(statistics.median(r[engine][figure] for r in measured))

    entry: dict[str, Any] = {
        "date": date.today().isoformat(),
        "mode": size,
        "rounds": rounds,
        "ratios": {peer: summary(ratios(workload, measured, peer)) for peer in PEERS},
        "figures": {engine: median(engine, workload.figure) for engine in ENGINES},
        "phases": {engine: median_phases(measured, engine) for engine in ENGINES},
        "measured": measured,
    }
    for extra in ("bare_ms", "last_to_first"):
        if extra in measured[0]["penstock"]:
            entry[extra] = {engine: median(engine, extra) for engine in ENGINES}
    return entry


def median_phases(measured: list[dict[str, Any]], engine: str) -> dict[str, float] | None:
    """The median over the rounds of each phase of an engine; None if there are no phases."""
    rounds = [r[engine]["phases"] for r in measured if "phases" in r[engine]]
    names = sorted({name for phases in rounds for name in phases})
    if not rounds:
        return None
    return {name: statistics.median(phases.get(name, 0.0) for phases in rounds) for name in names}


def write(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    draw(results, PICTURE)
    update_page(results, HERE.parent / "docs" / "benchmark.md", cells_of, notes(results))


def main() -> None:
    size = "quick" if os.environ.get("QUICK") else "full"
    rounds = int(os.environ.get("ROUNDS", "2" if size == "quick" else "3"))
    chosen = os.environ.get("ONLY", "").split() or [*WORKLOADS, "growth"]
    unknown = set(chosen) - {*WORKLOADS, "growth"}
    if unknown:
        known_names = ", ".join([*WORKLOADS, "growth"])
        sys.exit(f"unknown in ONLY: {', '.join(unknown)}; known are {known_names}")
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results |= {
        "date": date.today().isoformat(),
        "machine": MACHINE,
    }
    known = results.setdefault("workloads", {})
    cache: dict[Any, Any] = {}
    for name in (n for n in WORKLOADS if n in chosen):
        known[name] = measure_workload(name, size, rounds, cache)
        # In the order of WORKLOADS. Written now, so that a later failure does not lose it.
        results["workloads"] = known = {n: known[n] for n in WORKLOADS if n in known}
        write(results)
    if "growth" in chosen:
        results["growth"] = measure(("spark", "penstock"), "growth", size)
        write(results)
    show(results)


if __name__ == "__main__":
    main()
