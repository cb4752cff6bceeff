"""Batches with a quarantine that run again: after a crash, and with the records of another."""

from __future__ import annotations

import pytest

from penstock.checkpoint.quarantine_log import KeptRange, LeftOutPart, QuarantineRecord
from penstock.engine.faults import FaultPoint
from penstock.engine.quarantine import QuarantineRules
from penstock.errors import ConcurrentUpdateError, MalformedLogError, QuarantineError
from tests.engine.quarantine_place import ROWS, RULES, Place
from tests.engine.world import RecordingFaults, StrikeError


def crashed(point: FaultPoint) -> Place:
    """A place after a crash at a point in the run that puts a row aside."""
    place = Place()
    place.fails()
    place.fails(StrikeError, faults=RecordingFaults((point, 0)))
    return place


@pytest.mark.parametrize(
    "point",
    [
        FaultPoint.BEFORE_TRIALS,
        FaultPoint.BEFORE_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_COPY,
        FaultPoint.BEFORE_SINK,
        FaultPoint.AFTER_SINK,
    ],
)
def test_after_a_crash_the_same_is_left_out(point: FaultPoint) -> None:
    place = crashed(point)
    before = place.record()
    place.run()
    assert place.output == {0: [0, 1, 2, 3, 4, 6, 7]}
    assert place.world.plan.copies == {(0, 0): ("/aside", [5])}
    assert ("plan.trials" in place.world.calls) == (before is None)
    assert before in (None, place.record())


@pytest.mark.parametrize("rules", [RULES, None, QuarantineRules("/elsewhere")])
def test_a_decision_is_repeated_though_the_query_is_fixed(rules: QuarantineRules | None) -> None:
    place = crashed(FaultPoint.AFTER_SINK)
    place.poison = set()
    place.run(rules)
    assert place.output == {0: [0, 1, 2, 3, 4, 6, 7]}
    assert place.world.plan.copies == {(0, 0): ("/aside", [5])}


def test_a_batch_does_not_run_before_its_parts_are_copied() -> None:
    place = Place()
    place.fails()
    world = place.process()
    world.plan.on_copy = lambda: (_ for _ in ()).throw(OSError("read-only"))
    message = place.fails(QuarantineError, world=world)
    assert message.startswith("What batch 0 leaves out could not be copied to /aside: OSError: ")
    assert "plan.run 0" not in world.calls
    place.run()
    assert place.output == {0: [0, 1, 2, 3, 4, 6, 7]}


def test_another_run_that_has_recorded_the_batch_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place()
    place.fails()
    world = place.process()
    monkeypatch.setattr(world.checkpoint.quarantine, "add", lambda batch_id, record: False)
    place.fails(ConcurrentUpdateError, world=world)
    assert "plan.run 0" not in world.calls


def test_a_record_of_another_plan_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    place.fails(StrikeError, faults=RecordingFaults((FaultPoint.BEFORE_SINK, 0)))
    log = place.process().checkpoint.quarantine
    part = LeftOutPart("0", "Numbers[a]", "", start="4", end="5")
    kept = (KeptRange("0", None, "4"),)
    assert log.add(0, QuarantineRecord(place.planned_at() + 1, 0, "/aside", (part,), kept))
    place.run()
    assert place.output == {0: list(ROWS)}
    assert "is of another plan of batch 0 and is ignored" in caplog.text


def test_a_truncated_record_is_refused() -> None:
    place = crashed(FaultPoint.AFTER_QUARANTINE_RECORD)
    place.files.place(".penstock/quarantine/0", b"v1\n{")
    place.fails(MalformedLogError)


def test_a_record_of_other_sources_is_refused() -> None:
    place = Place(poison=())
    place.fails(StrikeError, faults=RecordingFaults((FaultPoint.BEFORE_SINK, 0)))
    log = place.process().checkpoint.quarantine
    part = LeftOutPart("7", "another", "", start="4", end="5")
    assert log.add(0, QuarantineRecord(place.planned_at(), 0, "/aside", (part,)))
    assert "names the source '7'" in place.fails(MalformedLogError)
