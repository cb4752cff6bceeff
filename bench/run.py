"""`make bench`: the engines side by side, alternating in one run, as ratios with their spread.

Writes bench/results.json and bench/results.png. QUICK=1 takes minutes, the full run hours.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from engines import ENGINES
from plot import draw
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
console = Console()


def measure(engine: str, name: str, size: str) -> dict[str, Any]:
    """One run of a workload in a process of its own."""
    command = [sys.executable, str(HERE / "worker.py"), engine, name, size]
    done = subprocess.run(command, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            figures: dict[str, Any] = json.loads(line[len("RESULT ") :])
            return figures
    raise RuntimeError(f"{engine} {name} gave no result:\n{done.stdout}{done.stderr[-3000:]}")


def alternate(name: str, size: str, rounds: int) -> list[dict[str, dict[str, Any]]]:
    """Rounds of all engines, each round in another order, so that none is always first."""
    measured = []
    for number in range(rounds):
        order = ENGINES[number % 3 :] + ENGINES[: number % 3]
        measured.append({engine: measure(engine, name, size) for engine in order})
        console.print(f"  [dim]{name}: round {number + 1} of {rounds}[/]")
    return measured


def ratios(workload: Workload, rounds: list[dict[str, dict[str, Any]]], peer: str) -> list[float]:
    """Penstock / peer, round by round."""
    return [r["penstock"][workload.figure] / r[peer][workload.figure] for r in rounds]


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if len(ordered) >= 4:
        low, _, high = statistics.quantiles(ordered, n=4)
    return {"median": statistics.median(ordered), "low": low, "high": high}


def verdict(workload: Workload, against: str, ratio: float) -> str:
    target = workload.targets[0 if against == "spark" else 1]
    met = ratio >= target if workload.higher_is_better else ratio <= target
    sign = "≥" if workload.higher_is_better else "≤"
    return f"[{'green' if met else 'red'}]{sign} {target:g} {'✓' if met else '✗'}[/]"


def show(results: dict[str, Any]) -> None:
    table = Table("measure", "/ Spark", "target", "/ Spark tuned", "target", "Penstock")
    for name, workload in WORKLOADS.items():
        if name not in results["workloads"]:
            continue
        entry = results["workloads"][name]
        cells = []
        for peer in ("spark", "tuned"):
            ratio = entry["ratios"][peer]
            spread = f"{ratio['low']:.2f}-{ratio['high']:.2f}"
            cells += [f"{ratio['median']:.2f} ({spread})", verdict(workload, peer, ratio["median"])]
        table.add_row(workload.title, *cells, f"{entry['figures']['penstock']:.1f}")
    console.print(table)


def main() -> None:
    size = "quick" if os.environ.get("QUICK") else "full"
    rounds = int(os.environ.get("ROUNDS", "3" if size == "quick" else "5"))
    chosen = os.environ.get("ONLY", "").split() or [*WORKLOADS, "growth"]
    results: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "mode": size,
        "rounds": rounds,
        "workloads": {},
    }
    cache: dict[Any, list[dict[str, dict[str, Any]]]] = {}
    for name in (n for n in WORKLOADS if n in chosen):
        workload = WORKLOADS[name]
        key = (workload.run, tuple(workload.conf.items()))
        if key not in cache:
            cache[key] = alternate(name, size, rounds)
        measured = cache[key]
        results["workloads"][name] = {
            "ratios": {p: summary(ratios(workload, measured, p)) for p in ("spark", "tuned")},
            "figures": {
                e: statistics.median(r[e][workload.figure] for r in measured) for e in ENGINES
            },
            "phases": {e: measured[-1][e].get("phases") for e in ENGINES},
        }
    if "growth" in chosen:
        results["growth"] = {e: measure(e, "growth", size) for e in ("spark", "penstock")}
    (HERE / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    draw(results, HERE / "results.png")
    show(results)


main()
