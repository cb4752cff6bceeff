"""Reduces a schedule with a violation to the smallest one that still has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.schedule import Run, Schedule, TriggerKind
from tests.simulation.simulator import simulate


def shrink(schedule: Schedule, message: str = "") -> Schedule:
    """Simplify a schedule as long as it has a violation whose text contains `message`."""
    while True:
        for smaller in _smaller(schedule):
            if any(message in violation for violation in simulate(smaller).violations):
                schedule = smaller
                break
        else:
            return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    for index, run in enumerate(schedule.runs):
        others = (schedule.runs[:index], schedule.runs[index + 1 :])
        yield replace(schedule, runs=others[0] + others[1])
        for simpler in _simpler_runs(run):
            yield replace(schedule, runs=(*others[0], simpler, *others[1]))
    for index in range(1, len(schedule.arrivals)):
        yield replace(schedule, arrivals=schedule.arrivals[:index] + schedule.arrivals[index + 1 :])
    yield from _without_a_source(schedule)
    yield from _fewer_rows(schedule)
    yield from _plainer_shapes(schedule)


def _simpler_runs(run: Run) -> Iterator[Run]:
    for index in range(len(run.faults)):
        yield replace(run, faults=run.faults[:index] + run.faults[index + 1 :])
    for index, fault in enumerate(run.faults):
        if fault.occurrence > 1:
            fewer = replace(fault, occurrence=fault.occurrence - 1)
            yield replace(run, faults=(*run.faults[:index], fewer, *run.faults[index + 1 :]))
    if run.clock_jump_ms:
        yield replace(run, clock_jump_ms=0)
    if run.trigger is not TriggerKind.PROCESSING:
        yield replace(run, trigger=TriggerKind.PROCESSING)


def _without_a_source(schedule: Schedule) -> Iterator[Schedule]:
    sources = schedule.shape.sources
    for index in range(len(sources) if len(sources) > 1 else 0):
        poison = tuple((s - (s > index), row) for s, row in schedule.shape.poison if s != index)
        left = sources[:index] + sources[index + 1 :]
        shape = replace(schedule.shape, sources=left, poison=poison)
        arrivals = tuple(rows[:index] + rows[index + 1 :] for rows in schedule.arrivals)
        yield replace(schedule, shape=shape, arrivals=arrivals)


def _fewer_rows(schedule: Schedule) -> Iterator[Schedule]:
    for moment, rows in enumerate(schedule.arrivals):
        for source, count in enumerate(rows):
            if count:
                fewer = (*rows[:source], count - 1, *rows[source + 1 :])
                arrivals = (*schedule.arrivals[:moment], fewer, *schedule.arrivals[moment + 1 :])
                yield replace(schedule, arrivals=arrivals)


def _plainer_shapes(schedule: Schedule) -> Iterator[Schedule]:
    shape = schedule.shape
    if shape.is_stateful:
        yield replace(schedule, shape=replace(shape, watermark_policy=None))
    if shape.retained_batches < 100:
        yield replace(schedule, shape=replace(shape, retained_batches=100))
    if shape.available_now_wrapper:
        yield replace(schedule, shape=replace(shape, available_now_wrapper=False))
    if shape.sinks:
        yield replace(schedule, shape=replace(shape, sinks=shape.sinks - 1))
    for pair in shape.poison:
        others = tuple(other for other in shape.poison if other != pair)
        yield replace(schedule, shape=replace(shape, poison=others))
    if shape.after and not shape.poison:
        yield replace(schedule, shape=replace(shape, after=0))
    if shape.repeats_first:
        yield replace(schedule, shape=replace(shape, repeats_first=False))
