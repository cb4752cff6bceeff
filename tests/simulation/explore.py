"""Systematic schedules for chosen queries: single faults, pairs of faults in one or two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from tests.simulation.futures import Futures
from tests.simulation.schedule import Fault, FaultKind, Run, Schedule, TriggerKind
from tests.simulation.simulator import Outcome, Simulation, simulate
from tests.simulation.sites import KINDS_AT, OF_SINKS
from tests.simulation.world import World

Explored = tuple[Schedule, Outcome]

_QUERIES = tuple(
    Schedule.parse(f"{text} runs=")
    for text in (
        "sources=v1-limit:2,v2-now:1 plan=min retain=1 flags=nodata arrivals=2/0,1/1,0/1",
        "sources=v1-now:1,v2-now:2 plan=max retain=1 flags=nodata arrivals=1/1,1/2",
        "sources=v1:1,v2:1 plan=stateless retain=2 flags=nodata,wrapper arrivals=1/0,1/1,2/0",
        "sources=v2-limit:2,v1-limit:1 plan=min retain=2 flags=nodata,wrapper,twice "
        "arrivals=1/1,2/0",
        "sources=v2-now:1,v1-limit:1,v2:1 plan=min retain=1 flags= arrivals=0/1/1,1/0/1,1/1/0",
        "sources=v1-limit:2,v2-now:1 sinks=3 plan=min retain=1 flags=nodata arrivals=2/0,1/1",
        "sources=v2-now:1 sinks=2 plan=stateless retain=1 flags=nodata arrivals=1,1,1",
        "sources=v1-limit:1,v2-now:2 plan=min retain=1 flags=nodata,store arrivals=2/1,1/0,1/1",
        "sources=v2-now:3 after=1 poison=0.1 plan=min retain=1 flags=nodata arrivals=3,1",
        "sources=v1-limit:3,v2-now:2 sinks=2 after=1 poison=0.0,0.2,1.1 plan=stateless retain=1 "
        "flags=nodata arrivals=3/2,1/1",
        "sources=v2-now:4 after=1 poison=0.1,0.2 plan=stateless retain=1 flags=nodata,store "
        "arrivals=4,1",
        "sources=v1-limit:2,v2:1 sinks=2 after=1 poison= plan=min retain=1 flags=nodata "
        "arrivals=2/1,1/0",
    )
)


@dataclass(frozen=True)
class Ground:
    """A query with the triggers of its first two runs."""

    query: Schedule
    first: TriggerKind
    second: TriggerKind


def single_fault_grounds() -> list[Ground]:
    """Every query with every trigger; the second run has a different trigger."""
    kinds = list(TriggerKind)
    return [
        Ground(query, first, kinds[(index + number + 1) % len(kinds)])
        for number, query in enumerate(_QUERIES)
        for index, first in enumerate(kinds)
    ]


def crash_pair_grounds() -> list[Ground]:
    """Every query with one pair of triggers, the first query with every pair."""
    kinds = (TriggerKind.PROCESSING, TriggerKind.ONCE, TriggerKind.AVAILABLE)
    every = [Ground(_QUERIES[0], first, second) for first in kinds for second in kinds]
    others = [
        Ground(query, kinds[n % 3], kinds[(n // 3 + 1) % 3]) for n, query in enumerate(_QUERIES[1:])
    ]
    return every + others


def single_faults(ground: Ground) -> Iterator[Explored]:
    """Every fault that is possible at every site that the first run passes.

    For a query with a quarantine at every site of the second run too, which puts rows aside.
    """
    runs = Run(ground.first), Run(ground.second)
    undisturbed = replace(ground.query, runs=runs)
    outcome = simulate(undisturbed)
    yield undisturbed, outcome
    before, futures = Simulation(World(ground.query)), Futures()
    for number in range(2 if ground.query.shape.after else 1):
        for site, occurrence in outcome.passed[number]:
            for kind in KINDS_AT[site]:
                struck = replace(runs[number], faults=(Fault(kind, site, occurrence),))
                schedule = replace(ground.query, runs=(*runs[:number], struck, *runs[number + 1 :]))
                simulation = before.fork()
                simulation.live(struck)
                yield schedule, futures.finish(simulation, runs[number + 1 :])
        before.live(runs[number])


def crash_pairs(ground: Ground, part: int = 0, parts: int = 1) -> Iterator[Explored]:
    """Every crash in the first run with every crash in the second; the share `part` of `parts`."""
    return _pairs(ground, part, parts, lambda site: (_crash_kind(site),))


def fault_pairs(ground: Ground, part: int = 0, parts: int = 1) -> Iterator[Explored]:
    """Every fault in the first run with every fault in the second; the share `part` of `parts`."""
    return _pairs(ground, part, parts, KINDS_AT.__getitem__)


def _pairs(
    ground: Ground, part: int, parts: int, kinds_at: Callable[[str], Iterable[FaultKind]]
) -> Iterator[Explored]:
    """A share of the pairs of faults of these kinds, one in each of two runs.

    Each first run is simulated once and then forked for all of its second runs. A share has first
    runs with faults at neighbouring sites, since these often leave the same state.
    """
    passed = simulate(replace(ground.query, runs=(Run(ground.first),))).passed[0]
    faults, futures = _faults_at(passed, kinds_at), Futures()
    for fault in faults[len(faults) * part // parts : len(faults) * (part + 1) // parts]:
        first = Run(ground.first, faults=(fault,))
        past = Simulation(World(ground.query))
        past.live(first)
        undisturbed = futures.finish(past, (Run(ground.second),))
        if undisturbed.violations:
            yield replace(ground.query, runs=(first, Run(ground.second))), undisturbed
            continue
        for second_fault in _faults_at(undisturbed.passed[1], kinds_at):
            second = Run(ground.second, faults=(second_fault,))
            schedule = replace(ground.query, runs=(first, second))
            yield schedule, futures.finish(past.fork(), (second,))


def _faults_at(
    passed: Iterable[tuple[str, int]], kinds_at: Callable[[str], Iterable[FaultKind]]
) -> list[Fault]:
    """The faults of these kinds at the sites that a run has passed."""
    return [Fault(kind, site, occurrence) for site, occurrence in passed for kind in kinds_at(site)]


def sink_pair_grounds() -> list[Ground]:
    """Every query with many sinks, which may be written to at the same time."""
    queries = [query for query in _QUERIES if query.shape.sinks]
    return [Ground(query, TriggerKind.PROCESSING, TriggerKind.AVAILABLE) for query in queries]


def sink_pairs(ground: Ground) -> Iterator[Explored]:
    """Every fault in a sink of the first batch with every fault in a sink of the same batch."""
    after = (Run(ground.second),)
    passed = simulate(replace(ground.query, runs=(Run(ground.first), *after))).passed[0]
    of_first_batch = [
        (site, occurrence)
        for site, occurrence in passed
        if site in OF_SINKS and occurrence <= ground.query.shape.sinks
    ]
    faults = _faults_at(of_first_batch, KINDS_AT.__getitem__)
    start, futures = Simulation(World(ground.query)), Futures()
    for pair in combinations(faults, 2):
        struck = Run(ground.first, faults=pair)
        simulation = start.fork()
        simulation.live(struck)
        schedule = replace(ground.query, runs=(struck, *after))
        yield schedule, futures.finish(simulation, after)


def _crash_kind(site: str) -> FaultKind:
    """A crash at a site; while a file is written, with a partly written temporary file."""
    return FaultKind.KILL if FaultKind.KILL in KINDS_AT[site] else FaultKind.TORN_TEMPORARY
