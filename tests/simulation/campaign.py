"""Runs many schedules on several processes and counts them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation.explore import (
    Explored,
    crash_pair_grounds,
    crash_pairs,
    fault_pairs,
    single_fault_grounds,
    single_faults,
    sink_pair_grounds,
    sink_pairs,
)
from tests.simulation.generate import generate
from tests.simulation.schedule import Schedule
from tests.simulation.simulator import quiet_engine, simulate

_SHARES_OF_PAIRS = 6
_SHARES_OF_FAULT_PAIRS = 40
_GENERATED_AT_ONCE = 500
_COLLECTED_AT_ONCE = 10
"""After so many schedules the garbage is collected: later it is no longer in the CPU's cache."""


@dataclass
class Tally:
    """The number of schedules by origin, the injected faults, and the violations.

    `runs` counts the runs of all schedules, `simulated` each run that several share only once.
    """

    schedules: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    simulated: int = 0
    batches: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[Schedule, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.schedules.total()

    def count(self, origin: str, explored: Iterable[Explored]) -> Tally:
        """Simulate the schedules and count them; stops at a violation."""
        for number, (schedule, outcome) in enumerate(explored, 1):
            self.schedules[origin] += 1
            self.runs += len(outcome.passed)
            self.simulated += outcome.simulated
            self.batches += len(outcome.ledger.commits)
            self.faults.update(fault.kind.value for fault in outcome.injected)
            self.sites.update(fault.site for fault in outcome.injected)
            if outcome.violations:
                self.violations.append((schedule, outcome.violations[0]))
                break
            if number % _COLLECTED_AT_ONCE == 0:
                gc.collect(0)
        return self

    def add(self, other: Tally) -> None:
        self.schedules.update(other.schedules)
        self.runs += other.runs
        self.simulated += other.simulated
        self.batches += other.batches
        self.faults.update(other.faults)
        self.sites.update(other.sites)
        self.violations.extend(other.violations)


@dataclass(frozen=True)
class Share:
    """A part of the work, small enough to be sent to another process."""

    origin: str
    number: int
    part: int = 0
    seed: int = 0

    def run(self) -> Tally:
        # `count` collects the garbage. The collector by itself would also visit what is kept.
        gc.disable()
        try:
            with quiet_engine():
                return Tally().count(self.origin, self._explored())
        finally:
            gc.enable()
            gc.collect()

    def _explored(self) -> Iterator[Explored]:
        match self.origin:
            case "single faults":
                return single_faults(single_fault_grounds()[self.number])
            case "pairs in sinks":
                return sink_pairs(sink_pair_grounds()[self.number])
            case "pairs of crashes":
                ground = crash_pair_grounds()[self.number]
                return crash_pairs(ground, self.part, _SHARES_OF_PAIRS)
            case "pairs of faults":
                ground = crash_pair_grounds()[self.number]
                return fault_pairs(ground, self.part, _SHARES_OF_FAULT_PAIRS)
        return self._generated()

    def _generated(self) -> Iterator[Explored]:
        for index in range(self.number, self.number + _GENERATED_AT_ONCE):
            schedule = generate(self.seed, index)
            yield schedule, simulate(schedule)


def run_campaign(
    at_least: int,
    seed: int,
    *,
    processes: int | None = None,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run systematic schedules, then generated ones up to `at_least`.

    These are all single faults; from 50,000 on, all pairs of faults in the sinks of one batch and
    all pairs of crashes; then shares of the pairs of any faults, up to two thirds. Stops after the
    share in which a violation is found.
    """
    tally = Tally()
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count()) as pool:
        for shares in _stages(at_least, seed, tally):
            for share in pool.imap_unordered(Share.run, shares):
                tally.add(share)
                on_progress(tally)
                if tally.violations:
                    return tally
    return tally


def _stages(at_least: int, seed: int, so_far: Tally) -> Iterator[list[Share]]:
    """The shares of each stage; the later ones depend on how many schedules have run."""
    yield [Share("single faults", n) for n in range(len(single_fault_grounds()))]
    if at_least >= _PAIRS_FROM:
        yield [Share("pairs in sinks", n) for n in range(len(sink_pair_grounds()))]
        grounds = range(len(crash_pair_grounds()))
        yield [
            Share("pairs of crashes", n, part) for n in grounds for part in range(_SHARES_OF_PAIRS)
        ]
        # In another order with another seed. A third is left for generated schedules.
        every = range(_SHARES_OF_FAULT_PAIRS)
        for part in random.Random(seed).sample(every, len(every)):
            if so_far.total < at_least * 2 // 3:
                yield [Share("pairs of faults", n, part) for n in grounds]
    missing = max(at_least - so_far.total, 0)
    yield [Share("generated", first, seed=seed) for first in range(0, missing, _GENERATED_AT_ONCE)]


_PAIRS_FROM = 50_000
