"""`make crash N=50`: kills pipelines on Spark N times and checks their output.

    python -m tests.crash [N] [--seed SEED] [--workers WORKERS]

The exit code is 0 if no row was lost or written twice and the logs were consistent. RECORD=1 adds
the run to the log in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash.harness import Kill, Life, Strike, choose_kills, live
from tests.crash.pipelines import PIPELINES, Workspace
from tests.recorded_runs import record_if_wanted

KILLS_PER_LIFE = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=50, help="how many kills")
    parser.add_argument("--seed", default="", help="of an earlier run, to kill as that did")
    parser.add_argument("--workers", type=int, default=1, help="how many pipelines run at once")
    arguments = parser.parse_args()
    seed = int(arguments.seed or random.randrange(1_000_000))
    began = time.monotonic()
    print(f"{arguments.count} kills, seed {seed}")
    print(f"{'pipeline':<14} {'killed at':<24} {'batch':>5} {'run':>4}  verdict")
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(arguments.workers) as workers,
    ):
        running = [
            workers.submit(_live, Path(folder) / str(number), f"{name} {number}", name, kills)
            for number, (name, kills) in enumerate(_lives(arguments.count, seed))
        ]
        lives = [life.result() for life in running]
    return _report(lives, seed, time.monotonic() - began)


def _report(lives: Sequence[Life], seed: int, seconds: float) -> int:
    """Print the sums and record the run. Returns the exit code."""
    strikes = [strike for life in lives for strike in life.strikes]
    struck = sum(strike.has_struck for strike in strikes)
    sick = [life for life in lives if not life.is_well]
    print(
        f"{struck} kills struck, {len(strikes) - struck} came after the end; "
        f"{sum(life.runs for life in lives)} runs, {len(sick)} of {len(lives)} "
        f"checkpoints with a problem; seed {seed}, {seconds:.0f} s"
    )
    record_if_wanted("make crash", seed, struck, "kills", len(sick), seconds)
    return 1 if sick else 0


def _lives(count: int, seed: int) -> list[tuple[str, list[Kill]]]:
    """The kills of each pipeline in order, split by checkpoint."""
    lives = []
    chosen = choose_kills(count, seed)
    for name in PIPELINES:
        kills = [kill for pipeline, kill in chosen if pipeline == name]
        for first in range(0, len(kills), KILLS_PER_LIFE):
            lives.append((name, kills[first : first + KILLS_PER_LIFE]))
    return lives


def _live(root: Path, title: str, name: str, kills: list[Kill]) -> Life:
    run = 0

    def tell(strike: Strike) -> None:
        nonlocal run
        run += 1
        verdict = "; ".join(strike.problems) or ("ok" if strike.has_struck else "ok, ended before")
        print(
            f"{title:<14} {strike.kill!s:<24} {strike.batch_id:>5} {run:>4}  {verdict}", flush=True
        )

    life = live(PIPELINES[name], kills, Workspace(root), tell)
    verdict = f"{life.rows} rows, nothing lost, nothing twice"
    for problem in life.problems or [verdict]:
        kind = f"= {len(life.strikes)} kills"
        print(f"{title:<14} {kind:<24} {'':>5} {life.runs:>4}  {problem}", flush=True)
    return life


if __name__ == "__main__":
    sys.exit(main())
