"""Tests the checker: it catches every planted bug, with a message that describes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.simulation import Schedule, quiet_engine, shrink, simulate
from tests.simulation import planted_bugs as bugs
from tests.simulation.explore import single_fault_grounds, single_faults
from tests.simulation.planted_bug_table import PLANTED_BUGS, PlantedBug


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet_engine():
        yield


@pytest.mark.parametrize("bug", PLANTED_BUGS.values(), ids=PLANTED_BUGS.keys())
def test_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule.parse(bug.shown_by)
    assert simulate(schedule).violations == []

    bug.plant(monkeypatch)

    assert any(bug.message in violation for violation in simulate(schedule).violations)


@pytest.mark.parametrize(
    "name",
    [
        "commit before sink",
        "watermark of the commit log not taken",
        "one batch too few retained",
        "overwrite instead of write-if-absent",
        "AvailableNow runs on",
        "a failing sink taken for the data",
        # These are found only after ten thousand schedules and more.
        *(
            pytest.param(name, marks=pytest.mark.extended)
            for name in (
                "a checkpoint that is gone is made anew",
                "another query's checkpoint is written to",
                "entries of sinks ignored",
                "commit before all sinks",
                "what is left out is decided again",
                "not copied after a crash",
            )
        ),
    ],
)
def test_exploration_finds_a_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTED_BUGS[name]
    bug.plant(monkeypatch)

    of_sinks, of_quarantine = "sinks=" in bug.shown_by, "after=" in bug.shown_by
    grounds = [
        ground
        for ground in single_fault_grounds()
        if bool(ground.query.shape.sinks) is of_sinks or of_quarantine
        if bool(ground.query.shape.after) is of_quarantine
    ]
    in_turn = itertools.zip_longest(*map(single_faults, grounds))
    explored = filter(None, itertools.chain.from_iterable(in_turn))
    violations = (violation for _, outcome in explored for violation in outcome.violations)

    assert any(bug.message in violation for violation in violations)


def test_a_schedule_with_a_violation_is_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.timestamp_not_repeated(monkeypatch)
    large = Schedule.parse(
        "sources=v1-limit:2,v2-now:1 plan=min retain=2 flags=nodata arrivals=2/0,1/1 "
        "runs=once;processing*4!kill@after_sink#1;available!eio@read_offsets#9"
    )

    small = shrink(large)

    assert simulate(small).violations
    assert len(small.runs) == 1
    assert [fault.kind.value for fault in small.runs[0].faults] == ["kill"]
    assert len(small.shape.sources) == 1
    assert Schedule.parse(str(small)) == small
