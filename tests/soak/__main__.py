"""`make soak`: runs one query for a long time and checks that its resources do not grow.

    python -m tests.soak [BATCHES]

Writes bench/soak.json and docs/images/soak.png. The exit code is 0 if, after the first quarter,
nothing grew by more than five percent.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from penstock.api.quiet_session import quiet_session
from tests.soak.long_run import SPARKS_MEMORY_OF_THE_PAST, run
from tests.soak.vitals import Vitals

RESULTS = Path(__file__).parents[2] / "bench"
SAMPLES = 40
ALLOWED_GROWTH = 1.05
WARM_UP = 0.25
_SLACK = {"python_threads": 2, "jvm_threads": 5, "python_descriptors": 5, "jvm_descriptors": 10}
"""Of small numbers five percent is less than one: so many more are none."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("batches", nargs="?", type=int, default=20_000)
    batches = max(parser.parse_args().batches, SAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "spark.log"
        spark = quiet_session("soak", log, {**SPARKS_MEMORY_OF_THE_PAST})
        checkpoint = Path(folder) / "checkpoint"
        measured = run(spark, checkpoint, batches, batches // SAMPLES, _print_line)
        spark.stop()
    figures = {batch_id: vitals.as_figures() for batch_id, vitals in measured.items()}
    growths = growth_of(figures)
    _write(figures, growths)
    grown = {name: ratio for name, (ratio, is_flat) in growths.items() if not is_flat}
    for name, (ratio, is_flat) in growths.items():
        print(f"{name:<20} x {ratio:.3f}  {'flat' if is_flat else 'GREW'}")
    return 1 if grown else 0


def growth_of(figures: dict[int, dict[str, float]]) -> dict[str, tuple[float, bool]]:
    """The growth of each vital from the end of the warm-up to the last tenth, and if it is flat."""
    samples = list(figures.values())
    after = samples[int(len(samples) * WARM_UP) :]
    share = max(len(samples) // 10, 1)
    growths = {}
    for name in samples[0]:
        first = sum(sample[name] for sample in after[:share]) / share
        last = sum(sample[name] for sample in after[-share:]) / share
        is_flat = last <= max(first * ALLOWED_GROWTH, first + _SLACK.get(name, 0))
        growths[name] = (last / first, is_flat)
    return growths


def _print_line(batch_id: int, vitals: Vitals) -> None:
    shown = "  ".join(f"{name} {value:,.0f}" for name, value in vitals.as_figures().items())
    print(f"batch {batch_id:>6}  {shown}", flush=True)


def _write(figures: dict[int, dict[str, float]], growths: dict[str, tuple[float, bool]]) -> None:
    record = {
        "date": date.today().isoformat(),
        "growth": {name: round(ratio, 4) for name, (ratio, _) in growths.items()},
        "vitals": figures,
    }
    (RESULTS / "soak.json").write_text(json.dumps(record, indent=1) + "\n")
    figure, axes = plt.subplots(2, 4, figsize=(13, 5.5))
    panels = axes.flatten()
    for axis, (name, (ratio, _)) in zip(panels, growths.items(), strict=False):
        values = [sample[name] for sample in figures.values()]
        axis.plot(list(figures), values, color="#3d6fa5")
        axis.set_ylim(0, 1.2 * max(values))
        axis.locator_params(axis="x", nbins=4)
        axis.set_title(f"{name.replace('_', ' ')}  x {ratio:.2f}", fontsize=9)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in panels[len(growths) :]:
        axis.set_visible(False)
    figure.suptitle(f"One query, {max(figures):,} batches ({date.today().isoformat()})")
    figure.tight_layout()
    figure.savefig(RESULTS.parent / "docs" / "images" / "soak.png", dpi=100)


if __name__ == "__main__":
    sys.exit(main())
