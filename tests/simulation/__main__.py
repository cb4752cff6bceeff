"""The simulation from a shell: `python -m tests.simulation 100000 --seed 7`.

Exits with 1 and prints the schedule to replay if an invariant is violated. RECORD=1 adds the run to
the log in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.recorded_runs import record_if_wanted
from tests.simulation.campaign import Tally, run_campaign
from tests.simulation.schedule import Schedule
from tests.simulation.shrink import shrink
from tests.simulation.simulator import quiet_engine, simulate


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 if no invariant was violated."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("at_least", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=_seed, default="", help="of the generated schedules")
    parser.add_argument("--schedule", default="", help="run this one schedule only")
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args(arguments)
    if options.schedule:
        return replay(Schedule.parse(options.schedule))
    return explore(options.at_least, options.seed, options.processes)


def explore(at_least: int, seed: int, processes: int | None = None) -> int:
    """Run a campaign and print its summary. Returns the exit code."""
    start = time.monotonic()
    tally = run_campaign(at_least, seed, processes=processes, on_progress=_show_progress)
    taken = time.monotonic() - start
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"schedules  {tally.total} ({_counts(tally.schedules)})")
    print(f"runs       {tally.runs} ({tally.simulated} different), batches {tally.batches}")
    print(f"faults     {tally.faults.total()} ({_counts(tally.faults)})")
    print(f"sites      {len(tally.sites)} with faults")
    print(f"time       {taken:.1f} s, {tally.total / taken:.0f} schedules a second")
    print(f"seed       {seed}")
    problems = len(tally.violations)
    record_if_wanted("make simulate", seed, tally.total, "schedules", problems, taken)
    if not tally.violations:
        print("violations none")
        return 0
    schedule, message = tally.violations[0]
    print(f"violation  {message}")
    print(f"found with SEED={seed} SCHEDULE='{schedule}'")
    with quiet_engine():
        smallest = shrink(schedule)
    print("smallest schedule with a violation:")
    replay(smallest)
    print(f"replay     make simulate SEED={seed} SCHEDULE='{smallest}'")
    return 1


def replay(schedule: Schedule) -> int:
    """Run one schedule and print the batches that reached the sink. Returns the exit code."""
    with quiet_engine():
        outcome = simulate(schedule)
    print(f"schedule   {schedule}")
    for batch in outcome.ledger.first_runs.values():
        print(f"sink       {batch}")
    for violation in outcome.violations:
        print(f"violation  {violation}")
    return 1 if outcome.violations else 0


def _seed(text: str) -> int:
    return int(text) if text else random.SystemRandom().randrange(1_000_000)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def _show_progress(tally: Tally) -> None:
    if sys.stderr.isatty():
        print(f"\r{tally.total} schedules", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
