"""The quarantine, without Spark: counting, narrowing, putting aside."""

from __future__ import annotations

import pytest

from penstock.checkpoint.quarantine_log import (
    BatchFailure,
    KeptRange,
    LeftOutPart,
    QuarantineRecord,
)
from penstock.engine.faults import FaultPoint
from penstock.engine.progress import QUARANTINED_PARTS
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import MalformedLogError
from tests.engine.quarantine_place import RULES, Place
from tests.engine.world import RecordingFaults, StrikeError
from tests.memory_world.session import InterruptedCallError
from tests.memory_world.sources import Abilities

# The whole way.


def test_a_poisoned_row_is_put_aside_after_so_many_failures() -> None:
    place = Place()
    rules = QuarantineRules("/aside", after=3)
    for _ in range(3):
        assert place.fails(rules=rules) == "cannot process [5]"
        assert "plan.trials" not in place.world.calls
    place.run(rules)
    assert place.output == {0: [0, 1, 2, 3, 4, 6, 7]}
    assert place.world.plan.copies == {(0, 0): ("/aside", [5])}
    part = LeftOutPart(
        "0",
        "Numbers[a]",
        "ValueError: cannot process [5]",
        "offset",
        start="4",
        end="5",
        size=1,
    )
    kept = KeptRange("0", None, "4"), KeptRange("0", "5", "7")
    assert place.record() == QuarantineRecord(place.planned_at(), 1_000, "/aside", (part,), kept)
    assert place.process().checkpoint.commit_log.list_batches() == [0]


def test_the_sink_is_not_called_while_a_batch_is_narrowed() -> None:
    place = Place()
    place.fails()
    faults = RecordingFaults()
    place.run(faults=faults)
    calls = [c for c in place.world.calls if c.startswith("plan.")]
    assert calls[0] == "plan.trials"
    assert calls[1] == "plan.try 0 [0, 1, 2, 3, 4, 5, 6, 7]"
    assert calls[calls.index("plan.trials end") :][:4] == [
        "plan.trials end",
        "plan.copy_aside 0",
        "plan.prepare 0",
        "plan.run 0",
    ]
    points = [point for point, batch_id in faults.reached if batch_id == 0]
    first = points.index(FaultPoint.BEFORE_TRIALS)
    assert points[first : first + 5] == [
        FaultPoint.BEFORE_TRIALS,
        FaultPoint.BEFORE_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_COPY,
        FaultPoint.BEFORE_GET_BATCH,
    ]


def test_several_rows_and_the_first_and_the_last_are_put_aside() -> None:
    place = Place(poison=(0, 3, 7))
    place.fails()
    place.run()
    assert place.output == {0: [1, 2, 4, 5, 6]}
    assert sorted(rows for _, rows in place.world.plan.copies.values()) == [[0], [3], [7]]
    record = place.record()
    assert record is not None
    assert [(part.start, part.end) for part in record.parts] == [
        (None, "0"),
        ("2", "3"),
        ("6", "7"),
    ]


@pytest.mark.parametrize("row", [0, 7])
def test_a_row_of_the_first_batch_is_put_aside_without_a_read_limit(row: int) -> None:
    place = Place(poison=(row,))
    place.abilities = Abilities(admission_control=True, available_now=True)
    place.fails()
    place.run()
    assert place.output == {0: [n for n in range(8) if n != row]}
    record = place.record()
    assert record is not None
    assert [part.size for part in record.parts] == [1]


def test_a_batch_of_one_part_runs_without_data() -> None:
    place = Place(poison=(0,), rows=range(1))
    place.fails()
    place.run()
    assert place.output == {0: []}


def test_files_are_put_aside_by_name() -> None:
    place = Place(in_files=True)
    place.fails()
    place.run()
    assert place.output == {0: [0, 1, 2, 3, 4, 6, 7]}
    record = place.record()
    assert record is not None
    [part] = record.parts
    assert (part.file, part.modified_ms, part.bytes, part.unit) == ("/in/5", 5, 7, "file")
    assert str(part) == "the file /in/5 (7 bytes) of Numbers[a]"
    assert record.kept == ()


def test_only_the_batch_that_fails_leaves_rows_out() -> None:
    place = Place(poison=(5,), rows=range(12))
    place.abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(4))
    place.fails()
    assert place.output == {0: [0, 1, 2, 3]}
    query = place.run()
    assert place.output == {0: [0, 1, 2, 3], 1: [4, 6, 7], 2: [8, 9, 10, 11]}
    batches = {p.batch_id: p.sources[0].metrics for p in query.reporter.recent_progress}
    assert batches[1][QUARANTINED_PARTS] == "1"
    assert QUARANTINED_PARTS not in batches[2]


def test_the_offset_log_is_the_same_as_without_a_quarantine() -> None:
    place, other = Place(), Place(poison=())
    place.fails()
    place.run()
    other.run()
    assert place.process().checkpoint.offset_log.get(
        0
    ) == other.process().checkpoint.offset_log.get(0)


# Counting.


def test_failures_are_counted_with_their_error() -> None:
    place = Place()
    place.fails(rules=QuarantineRules("/aside"))
    planned = place.planned_at()
    error = "ValueError: cannot process [5]"
    assert place.failures() == [BatchFailure(0, planned, 1_000, error)]


def test_without_a_quarantine_nothing_is_counted() -> None:
    place = Place()
    place.fails(rules=None)
    assert place.failures() == []
    assert not place.files.exists(".penstock")


def test_a_stop_is_no_failure_of_the_batch() -> None:
    place = Place(poison=())
    world = place.process()
    gate = world.gate()
    world.plan.on_run = gate
    query = world.query(AvailableNowTrigger(), quarantine=RULES)
    query.start()
    gate.wait_entered()
    query.stop()
    assert place.failures() == []


def test_a_timeout_without_a_stop_is_a_failure_of_the_batch() -> None:
    place = Place(poison=())
    world = place.process()

    def time_out() -> None:
        raise InterruptedCallError("read timed out")

    world.plan.on_run = time_out
    place.fails(InterruptedCallError, world=world)
    assert [failure.error for failure in place.failures()] == [
        "InterruptedCallError: read timed out"
    ]


def test_an_error_after_the_write_is_no_failure_of_the_batch() -> None:
    place = Place(poison=())
    place.fails(StrikeError, faults=RecordingFaults((FaultPoint.BEFORE_COMMIT_LOG, 0)))
    assert place.failures() == []


def test_failures_of_committed_batches_are_removed() -> None:
    place = Place(poison=(1, 5))
    place.abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(4))
    rules = QuarantineRules("/aside", after=2)
    place.fails(rules=rules)
    place.fails(rules=rules)
    place.fails(rules=rules)
    assert [failure.batch_id for failure in place.failures()] == [1]
    place.fails(rules=rules)
    place.run(rules)
    assert place.output == {0: [0, 2, 3], 1: [4, 6, 7]}


def test_no_more_failures_are_recorded_than_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    rules = QuarantineRules("/aside", after=3)
    for _ in range(10):
        world = place.process()
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("the sink is down"))
        place.fails(OSError, rules, world=world)
    assert len(place.failures()) == 3
    assert caplog.text.count("Batch 0 has failed at least 3 times, but nothing of it is put") == 7


def test_a_damaged_failure_is_found_even_if_the_quarantine_has_decided() -> None:
    place = Place()
    place.fails()
    place.fails(StrikeError, faults=RecordingFaults((FaultPoint.AFTER_PLANNING, 0)))
    assert place.record() is not None
    [failure] = place.files.list_names(".penstock/failures")
    place.files.place(f".penstock/failures/{failure}", b"")  # as after a loss of power
    place.fails(MalformedLogError)


def test_failures_of_another_plan_do_not_count() -> None:
    place = Place()
    place.fails()
    log = place.process().checkpoint.failures
    log.append(BatchFailure(0, place.planned_at() - 1, 0, "of an earlier plan"))
    rules = QuarantineRules("/aside", after=2)
    place.fails(rules=rules)
    assert "plan.trials" not in place.world.calls


def test_a_failure_that_cannot_be_counted_is_the_same_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()
    world = place.process()

    def full(failure: BatchFailure) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(world.checkpoint.failures, "append", full)
    assert place.fails(world=world) == "cannot process [5]"
    assert "could not be recorded, so it is not counted" in caplog.text


def test_a_failure_that_cannot_be_described_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    world = place.process()

    def no_answer(error: BaseException) -> str:
        raise OSError("the JVM does not answer")

    monkeypatch.setattr(world.session, "error_message", no_answer)
    assert place.fails(world=world) == "cannot process [5]"
    assert [failure.error for failure in place.failures()] == ["ValueError: cannot process [5]"]
