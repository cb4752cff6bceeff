"""Draws the phases of a batch as stacked bars, one bar per engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

_PHASES = {
    "addBatch": ("the Spark job (addBatch)", "#c9d6e2"),
    "queryPlanning": ("planning", "#7fa3c7"),
    "latestOffset": ("latest offsets", "#3d6fa5"),
    "walCommit": ("offset log", "#e07b39"),
    "commitOffsets": ("commit log", "#b3421f"),
    "other": ("other", "#8a8a8a"),
}
_ENGINES = {"spark": "Spark", "tuned": "Spark\ntuned", "penstock": "Penstock"}
_SHOWN = ("stateless", "windowed", "rocksdb", "join")


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the picture: for each workload with phases, the stacked phases per engine."""
    shown = [n for n in _SHOWN if n in results["workloads"]]
    if not shown:
        return
    figure, axes = plt.subplots(1, len(shown), figsize=(3.2 * len(shown), 4.2), squeeze=False)
    for axis, name in zip(axes[0], shown, strict=True):
        _draw_workload(axis, name, results["workloads"][name])
    axes[0][0].set_ylabel("median ms per trigger")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="lower center", ncol=6, frameon=False, fontsize=8
    )
    figure.suptitle(
        f"Time per trigger of small batches, by phase ({results['machine']}, {results['date']})"
    )
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=110)


def _draw_workload(axis: Any, name: str, entry: dict[str, Any]) -> None:
    phases = entry["phases"]
    labels = list(_ENGINES.values())
    if "bare_ms" in entry:
        bare = entry["bare_ms"]["penstock"]
        axis.axhline(bare, color="#555555", linewidth=1, linestyle="--")
        place = {"xy": (1.0, bare), "xycoords": ("axes fraction", "data"), "va": "center"}
        axis.annotate(f" Spark job\n alone: {bare:.0f}", **place, fontsize=7)
    bottom = [0.0] * len(labels)
    for phase, (label, colour) in _PHASES.items():
        heights = [_height(phases[engine], phase) for engine in _ENGINES]
        axis.bar(labels, heights, bottom=bottom, label=label, color=colour, width=0.65)
        bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    for position, total in enumerate(bottom):
        axis.text(position, total, f"{total:.0f}", ha="center", va="bottom", fontsize=8)
    axis.set_title(name, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def _height(phases: dict[str, float], phase: str) -> float:
    if phase != "other":
        return phases.get(phase, 0.0)
    known = sum(phases.get(p, 0.0) for p in _PHASES if p != "other")
    return max(phases.get("triggerExecution", 0.0) - known, 0.0)
