"""`make crash N=50`: kills pipelines on Spark N times and checks their output.

    python -m tests.crash [N] [--seed SEED]

The exit code is 0 if no row was lost or written twice and the logs were consistent.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.harness import Kill, Life, Strike, choose_kills, live
from tests.crash.pipelines import PIPELINES, Workspace

KILLS_PER_LIFE = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=50, help="how many kills")
    parser.add_argument("--seed", default="", help="of an earlier run, to kill as that did")
    arguments = parser.parse_args()
    seed = int(arguments.seed or random.randrange(1_000_000))
    began = time.monotonic()
    print(f"{arguments.count} kills, seed {seed}")
    print(f"{'pipeline':<10} {'killed at':<24} {'batch':>5} {'run':>4}  verdict")
    with tempfile.TemporaryDirectory() as folder:
        lives = [
            _live(Path(folder) / str(number), name, kills)
            for number, (name, kills) in enumerate(_lives(arguments.count, seed))
        ]
    struck = sum(strike.has_struck for life in lives for strike in life.strikes)
    sick = [life for life in lives if not life.is_well]
    print(
        f"{struck} kills struck, {sum(len(life.strikes) for life in lives) - struck} came after "
        f"the end; {sum(life.runs for life in lives)} runs, {len(sick)} of {len(lives)} "
        f"checkpoints with a problem; seed {seed}, {time.monotonic() - began:.0f} s"
    )
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


def _live(root: Path, name: str, kills: list[Kill]) -> Life:
    run = 0

    def tell(strike: Strike) -> None:
        nonlocal run
        run += 1
        verdict = "; ".join(strike.problems) or ("ok" if strike.has_struck else "ok, ended before")
        print(
            f"{name:<10} {strike.kill!s:<24} {strike.batch_id:>5} {run:>4}  {verdict}", flush=True
        )

    life = live(PIPELINES[name], kills, Workspace(root), tell)
    verdict = f"{life.rows} rows, nothing lost, nothing twice"
    for problem in life.problems or [verdict]:
        print(f"{name:<10} {f'= {len(life.strikes)} kills':<24} {'':>5} {life.runs:>4}  {problem}")
    return life


if __name__ == "__main__":
    sys.exit(main())
