"""Hypothesis strategies for schedules."""

from __future__ import annotations

from hypothesis import strategies as st

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


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    site = draw(st.sampled_from(sorted(KINDS_AT)))
    return Fault(draw(st.sampled_from(KINDS_AT[site])), site, draw(st.integers(1, 4)))


runs = st.builds(
    Run,
    trigger=st.sampled_from(TriggerKind),
    triggers=st.integers(1, 5),
    faults=st.lists(faults(), max_size=3).map(tuple),
    clock_jump_ms=st.sampled_from((0, -60_000, 86_400_000)),
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    source = st.builds(SourceShape, kind=st.sampled_from(SourceKind), max_rows=st.integers(1, 3))
    sources = tuple(draw(st.lists(source, min_size=1, max_size=3)))
    limited = [number for number, source in enumerate(sources) if source.kind.has_limit]
    rows = st.tuples(st.sampled_from(limited), st.integers(0, 4)) if limited else st.nothing()
    after = draw(st.integers(0, 2))
    poison = draw(st.sets(rows, max_size=3)) if after and limited else set()
    shape = QueryShape(
        sources,
        draw(st.sampled_from((None, "min", "max"))),
        draw(st.sampled_from((100, 2, 1))),
        no_data_batches=draw(st.booleans()),
        available_now_wrapper=draw(st.booleans()),
        repeats_first=draw(st.booleans()),
        sinks=draw(st.integers(0, 3)),
        on_object_store=draw(st.booleans()),
        after=after,
        poison=tuple(sorted(poison)),
    )
    arrival = st.tuples(*(st.integers(0, 3) for _ in sources))
    arrivals = draw(st.lists(arrival, min_size=1, max_size=4))
    return Schedule(shape, tuple(arrivals), tuple(draw(st.lists(runs, max_size=4))))
