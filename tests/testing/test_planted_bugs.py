"""That the checker can fail: every planted bug is caught, with a message that names it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from penstock.testing.simulation import Schedule, quiet_engine, shrink, simulate
from penstock.testing.simulation.explore import single_fault_grounds, single_faults
from tests.testing.planted_bugs import PLANTED_BUGS, PlantedBug


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet_engine():
        yield


@pytest.mark.parametrize("bug", PLANTED_BUGS.values(), ids=PLANTED_BUGS.keys())
def test_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    found = _violations_until(bug.message)

    assert any(bug.message in message for message in found), found


def test_violation_shrinks_to_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_BUGS["timestamp not repeated"].plant(monkeypatch)
    large = Schedule.parse(
        "sources=v1-limit:2,v2-now:1 plan=min retain=2 flags=nodata arrivals=2/0,1/1 "
        "runs=once;processing*4!kill@after_sink#2;available!eio@read_offsets#9"
    )

    small = shrink(large)

    assert simulate(small).violations
    assert len(small.runs) == 1
    assert [fault.kind.value for fault in small.runs[0].faults] == ["kill"]
    assert len(small.shape.sources) == 1
    assert Schedule.parse(str(small)) == small


def _violations_until(fragment: str) -> list[str]:
    """What single faults bring to light, up to the message that is looked for."""
    found: list[str] = []
    in_turn = itertools.zip_longest(*map(single_faults, single_fault_grounds()))
    for _, outcome in filter(None, itertools.chain.from_iterable(in_turn)):
        found.extend(outcome.violations)
        if outcome.violations and fragment in found[-1]:
            return found
    return found
