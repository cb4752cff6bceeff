"""The quarantine, without Spark: counting, narrowing, limits, records, re-runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from penstock.checkpoint.quarantine_log import (
    BatchFailure,
    KeptRange,
    LeftOutPart,
    QuarantineRecord,
)
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink
from penstock.engine.progress import QUARANTINED_PARTS
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import (
    ConcurrentUpdateError,
    MalformedLogError,
    QuarantineError,
    SinkFailedError,
    StreamFailedError,
)
from tests.engine.world import PATIENCE, ManualClock, RecordingFaults, StrikeError, World
from tests.memory_world.files import MemoryFiles
from tests.memory_world.sources import Abilities

RULES = QuarantineRules("/aside", after=1)
LIMITED = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(8))
ROWS = range(8)


class Place:
    """A checkpoint that several processes use one after the other."""

    def __init__(
        self, poison: Sequence[int] = (5,), rows: Sequence[int] = ROWS, *, in_files: bool = False
    ) -> None:
        self.files = MemoryFiles()
        self.clock = ManualClock()
        self.poison = set(poison)
        self.rows = rows
        self.in_files = in_files
        self.abilities = LIMITED
        self.many: Sequence[NamedSink] = ()
        self.world = self.process()
        self.output: dict[int, list[int]] = {}

    def process(self) -> World:
        self.world = World(files=self.files, clock=self.clock)
        if self.in_files:
            self.world.add_files("a", self.rows)
        else:
            self.world.add_stream("a", self.rows, self.abilities)
        self.world.plan.poison = self.poison
        self.world.plan.many = self.many
        return self.world

    def run(
        self,
        rules: QuarantineRules | None = RULES,
        faults: RecordingFaults | None = None,
        world: World | None = None,
    ) -> StreamExecution:
        """Run the query in a process of its own to the end of the data."""
        world = world or self.process()
        query = world.query(
            AvailableNowTrigger(), faults=faults or RecordingFaults(), quarantine=rules
        )
        query.start()
        try:
            query.await_termination(PATIENCE)
        finally:
            self.output.update(world.plan.output)
        return query

    def fails(
        self,
        kind: type[BaseException] = ValueError,
        rules: QuarantineRules | None = RULES,
        faults: RecordingFaults | None = None,
        world: World | None = None,
    ) -> str:
        with pytest.raises(StreamFailedError) as caught:
            self.run(rules, faults, world)
        assert isinstance(caught.value.__cause__, kind)
        return str(caught.value.__cause__)

    def record(self, batch_id: int = 0) -> QuarantineRecord | None:
        return self.process().checkpoint.quarantine.get(batch_id)

    def failures(self) -> list[BatchFailure]:
        log = self.process().checkpoint.failures
        found = [log.get(number) for number in log.list_batches()]
        return [failure for failure in found if failure is not None]

    def planned_at(self, batch_id: int = 0) -> int:
        entry = self.process().checkpoint.offset_log.get(batch_id)
        assert entry is not None
        assert entry.metadata is not None
        return entry.metadata.batch_timestamp_ms


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


def test_a_batch_of_poison_only_runs_without_data() -> None:
    place = Place(poison=(0, 1), rows=range(2))
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


# Not put aside.


def given_up(place: Place, caplog: pytest.LogCaptureFixture) -> str:
    """Why nothing was put aside."""
    assert place.record() is None
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    [message] = [m for m in messages if "nothing of it is put aside" in m]
    return message


def test_a_failing_sink_is_not_the_fault_of_the_data(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    for _ in range(2):
        world = place.process()
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("the sink is down"))
        place.fails(OSError, world=world)
    assert "it does not fail without the sink" in given_up(place, caplog)
    place.run()
    assert place.output == {0: list(ROWS)}


def test_too_many_parts_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=(1, 2, 5))
    rules = QuarantineRules("/aside", after=1, max_parts=2)
    place.fails(rules=rules)
    assert place.fails(rules=rules) == "cannot process [1, 2, 5]"
    assert "more than 2 parts of it fail" in given_up(place, caplog)


def test_too_many_parts_in_a_day(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=(1, 5))
    place.abilities = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(4))
    rules = QuarantineRules("/aside", after=1, max_parts_per_day=1)
    place.fails(rules=rules)
    place.fails(rules=rules)
    place.fails(rules=rules)
    assert place.record(0) is not None
    assert place.record(1) is None
    assert "1 were put aside in the last 24 hours, and the limit is 1" in caplog.text
    place.clock.advance(86_400_001)
    place.run(rules)
    assert place.output == {0: [0, 2, 3], 1: [4, 6, 7]}


def test_parts_that_fail_only_together(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    for _ in range(2):
        world = place.process()
        world.plan.poison = set()

        def together(rows: list[int]) -> None:
            if {1, 6} <= set(rows):
                raise ValueError("1 and 6")

        world.plan.on_trial = together
        world.plan.on_run = lambda: (_ for _ in ()).throw(ValueError("1 and 6"))
        place.fails(world=world)
    assert "only several parts of it together fail" in given_up(place, caplog)


def test_a_source_without_read_limits(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.abilities = Abilities(available_now=True)
    place.fails()
    place.fails()
    assert "Numbers[a] cannot be read in smaller parts" in given_up(place, caplog)


def test_an_outage_that_ends_during_the_search(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    tried: list[list[int]] = []

    def outage(rows: list[int]) -> None:
        tried.append(rows)
        if rows and len(tried) < 6:
            raise OSError("no executors")

    for _ in range(2):
        world = place.process()
        world.plan.on_trial = outage
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("no executors"))
        place.fails(OSError, world=world)
    assert "a part of it failed once and then did not fail" in given_up(place, caplog)


def test_a_batch_that_fails_without_data(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    for _ in range(2):
        world = place.process()
        world.plan.on_trial = lambda rows: (_ for _ in ()).throw(OSError("no executors"))
        world.plan.on_run = lambda: (_ for _ in ()).throw(OSError("no executors"))
        place.fails(OSError, world=world)
    assert "it fails without any data too: OSError: no executors" in given_up(place, caplog)


def test_an_outage_of_everything(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=ROWS)
    rules = QuarantineRules("/aside", after=1, max_parts=3)
    place.fails(rules=rules)
    place.fails(rules=rules)
    assert "more than 3 parts of it fail" in given_up(place, caplog)


def test_a_search_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.fails()
    world = place.process()
    world.plan.trials = lambda: (_ for _ in ()).throw(OSError("no space left"))  # type: ignore[method-assign]
    place.fails(world=world)
    assert "the search failed: OSError: no space left" in given_up(place, caplog)


def test_a_batch_that_one_of_many_sinks_has(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(poison=())
    place.many = [NamedSink("lake"), NamedSink("alerts")]
    world = place.process()

    def down(name: str) -> None:
        if name == "alerts":
            raise OSError("down")

    world.plan.on_write = down
    place.fails(SinkFailedError, world=world)
    place.poison = {5}
    place.fails()
    assert "lake has the batch already" in given_up(place, caplog)


def test_many_sinks_get_the_rest() -> None:
    place = Place()
    place.many = [NamedSink("lake"), NamedSink("alerts")]
    place.fails()
    place.run()
    rest = [0, 1, 2, 3, 4, 6, 7]
    assert place.world.plan.written == {"lake": {0: rest}, "alerts": {0: rest}}


# Re-runs.


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
