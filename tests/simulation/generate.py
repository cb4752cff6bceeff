"""Random schedules: the same seed and index give the same schedule on every machine."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.schedule import (
    Fault,
    QueryShape,
    Run,
    Schedule,
    SourceKind,
    SourceShape,
    TriggerKind,
)
from tests.simulation.sites import KINDS_AT

_SITES = sorted(KINDS_AT)
_POLICIES = (None, "min", "min", "max")


def generate(seed: int, index: int) -> Schedule:
    """The schedule with the number `index` in the sequence of a seed."""
    rng = random.Random(f"{seed}/{index}")
    shape = _shape(rng)
    arrivals = tuple(
        tuple(rng.choice((0, 0, 1, 2, 3)) for _ in shape.sources) for _ in range(rng.randint(1, 4))
    )
    return Schedule(shape, arrivals, tuple(_run(rng) for _ in range(rng.choice((1, 1, 2, 2, 3)))))


def _shape(rng: random.Random) -> QueryShape:
    kinds = tuple(SourceKind)
    sources = tuple(
        SourceShape(rng.choice(kinds), rng.randint(1, 3)) for _ in range(rng.choice((1, 2, 2, 3)))
    )
    return QueryShape(
        sources,
        rng.choice(_POLICIES),
        rng.choice((1, 1, 2, 100)),
        no_data_batches=rng.random() < 0.8,
        available_now_wrapper=rng.random() < 0.5,
        repeats_first=rng.random() < 0.2,
        sinks=rng.choice((0, 0, 1, 2, 3)),
        on_object_store=rng.random() < 0.3,
        **_quarantine(rng, sources),
    )


def _quarantine(rng: random.Random, sources: tuple[SourceShape, ...]) -> dict[str, Any]:
    """In some queries rows that cannot be processed, in sources that can be read row by row."""
    if rng.random() < 0.6:
        return {}
    limited = [number for number, source in enumerate(sources) if source.kind.has_limit]
    chosen = {(source, rng.randint(0, 5)) for source in limited for _ in range(rng.randint(0, 2))}
    return {"after": rng.choice((1, 1, 2)), "poison": tuple(sorted(chosen))}


def _run(rng: random.Random) -> Run:
    return Run(
        rng.choice(tuple(TriggerKind)),
        rng.randint(1, 4),
        tuple(_fault(rng) for _ in range(rng.choice((0, 1, 1, 1, 2)))),
        rng.choice((0, 0, 0, 0, -60_000, 86_400_000)),
    )


def _fault(rng: random.Random) -> Fault:
    site = rng.choice(_SITES)
    return Fault(rng.choice(KINDS_AT[site]), site, rng.choice((1, 1, 2, 2, 3)))
