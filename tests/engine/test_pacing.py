"""Queries whose batches have a wanted duration, in memory and on a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine.available_now import AvailableNowDataStreamWrapper
from penstock.engine.data_stream import DataStream, UniqueSource
from penstock.engine.faults import FaultPoint
from penstock.engine.offsets import Offset
from penstock.engine.pacing import Pacing
from penstock.engine.progress import SourceProgress, StreamingQueryProgress
from penstock.engine.read_limit import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    LimitUnit,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
    unit_of,
)
from penstock.engine.source_pace import PaceReason
from penstock.engine.triggers import AvailableNowTrigger, OneTimeTrigger, Trigger
from penstock.errors import PaceError
from tests.engine.numbers import NumberStream
from tests.engine.world import PATIENCE, RecordingFaults, World
from tests.memory_world.sources import Abilities

TARGET = 10_000

Cost = Callable[[int, int], float]
"""The duration of a batch, from its number and its number of rows."""


def abilities(limit: ReadLimit = ALL_AVAILABLE) -> Abilities:
    return Abilities(admission_control=True, available_now=True, limit=limit)


def run(
    world: World, cost: Cost, trigger: Trigger | None = None, pace_ms: int | None = TARGET
) -> list[StreamingQueryProgress]:
    """Process all rows. A batch takes as long as `cost` says, on the clock of the world."""

    def take() -> None:
        request = world.plan.requests[-1]
        data: Any = request.data.values()
        world.clock.advance(round(cost(request.batch_id, sum(map(len, data)))))

    world.plan.on_run = take
    execution = world.query(trigger or AvailableNowTrigger(), pace_ms=pace_ms)
    records: list[StreamingQueryProgress] = []
    execution.reporter.observe(lambda p: records.append(p) if p.ran_a_batch else None)
    execution.start()
    execution.await_termination(PATIENCE)
    return records


def limits(records: list[StreamingQueryProgress], source: int = 0) -> list[int]:
    return [pace.limit for p in records if (pace := p.sources[source].pace) is not None]


def reasons(records: list[StreamingQueryProgress], source: int = 0) -> list[PaceReason]:
    return [pace.reason for p in records if (pace := p.sources[source].pace) is not None]


# In a query.


@pytest.mark.parametrize("factor", [10, 0.1])
def test_batches_are_near_the_target_though_the_cost_changes_tenfold(factor: float) -> None:
    """The cost per row changes at batch 60. A fixed limit would be wrong by a factor of ten."""
    world = World()
    per_row = 3.0 if factor < 1 else 0.8
    world.add_stream("a", range(900_000), abilities())
    records = run(world, lambda n, rows: 1_000 + rows * per_row * (factor if n >= 60 else 1))
    full = records[10:-1]
    assert len(full) > 70
    near = [p for p in full if abs(p.batch_duration_ms - TARGET) <= 0.25 * TARGET]
    assert len(near) / len(full) >= 0.9
    assert sum(p.num_input_rows for p in records) == 900_000


def test_batches_start_small_grow_hold_and_shrink() -> None:
    world = World()
    world.add_stream("a", range(100_000), abilities())
    records = run(world, lambda n, rows: rows * (1.0 if n < 8 else 10.0))
    assert limits(records)[:4] == [1000, 4000, 10_000, 10_000]
    assert reasons(records)[:4] == ["start", "grow", "grow", "hold"]
    assert reasons(records)[9] is PaceReason.SHRINK
    assert limits(records)[9] == 1000


def test_the_limit_of_the_job_is_never_exceeded() -> None:
    world = World()
    world.add_stream("a", range(30_000), abilities(ReadMaxRows(1500)))
    records = run(world, lambda n, rows: 1)
    assert max(p.num_input_rows for p in records) == 1500
    assert limits(records)[:3] == [1000, 1500, 1500]
    assert reasons(records)[:4] == ["start", *["at the job's limit"] * 3]


def test_a_small_limit_of_the_job_is_the_first_limit() -> None:
    world = World()
    world.add_stream("a", range(50), abilities(ReadMaxRows(10)))
    assert limits(run(world, lambda n, rows: 1)) == [10] * 5


def test_the_limit_does_not_grow_without_a_backlog() -> None:
    world = World()
    stream = world.add_stream("a", range(10), Abilities(admission_control=True))
    world.plan.on_run = lambda: stream.rows.extend([1] * 10)
    execution = world.query(pace_ms=TARGET)
    records: list[StreamingQueryProgress] = []
    execution.reporter.observe(records.append)
    execution.life.stop_after(lambda context: context.batch_id == 20)
    execution.start()
    assert execution.await_termination(PATIENCE)
    assert set(limits(records)) == {1000}
    assert set(reasons(records)[1:]) == {PaceReason.NO_BACKLOG}


def test_batches_stay_near_the_target_when_the_clock_is_set_back() -> None:
    world = World()
    world.add_stream("a", range(100_000), abilities())

    def cost(number: int, rows: int) -> float:
        if number == 6:
            world.clock.set_back(600_000)
        return 500 + rows

    records = run(world, cost)
    assert records[6].batch_duration_ms < 0
    assert len(records) > 10
    assert all(abs(p.num_input_rows + 500 - TARGET) < 0.25 * TARGET for p in records[4:-1])


def test_progress_has_the_target_the_limit_and_the_reason() -> None:
    world = World()
    world.add_stream("a", range(1500), abilities())
    first, second = run(world, lambda n, rows: TARGET)
    assert first.to_dict()["sources"][0]["metrics"] == {
        "consumed": "999",
        "paceLimit": "1000",
        "paceReason": "start",
        "paceTargetMs": "10000",
        "paceUnit": "rows",
    }
    assert second.sources[0].metrics["paceReason"] == "hold"


def test_a_batch_that_an_earlier_run_planned_runs_as_planned() -> None:
    world = World()
    world.add_stream("a", range(5000), abilities(ReadMaxRows(4000)))
    crashing = world.query(faults=RecordingFaults((FaultPoint.AFTER_OFFSET_LOG, 0)))
    crashing.start()
    crashing._thread.join_stopped(PATIENCE, "test", lambda: "")
    again = World(files=world.files)
    again.add_stream("a", range(8000), abilities())
    records = run(again, lambda n, rows: rows)
    assert [p.num_input_rows for p in records][:3] == [4000, 1000, 3000]
    assert records[0].sources[0].pace is None
    assert "paceLimit" not in records[0].sources[0].metrics
    assert limits(records)[:2] == [1000, 4000]


@pytest.mark.parametrize("point", list(FaultPoint))
def test_after_a_crash_at_any_point_no_batch_differs_from_its_plan(point: FaultPoint) -> None:
    """Whatever the limits are in the second run, a batch has the rows that the log says."""
    world = World()
    world.add_stream("a", range(9000), abilities())
    faults = RecordingFaults((point, 1))
    crashing = world.query(AvailableNowTrigger(), faults=faults, pace_ms=TARGET)
    crashing.start()
    crashing._thread.join_stopped(PATIENCE, "test", lambda: "")
    planned = {
        batch: world.checkpoint.offset_log.get(batch)
        for batch in world.checkpoint.offset_log.list_batches()
    }
    again = World(files=world.files)
    again.add_stream("a", range(9000), abilities())
    run(again, lambda n, rows: rows * 30)
    written = {**world.plan.output, **again.plan.output}
    assert sorted(row for rows in written.values() for row in rows) == list(range(9000))
    for batch, entry in planned.items():
        assert again.checkpoint.offset_log.get(batch) == entry


def test_two_sources_share_the_duration() -> None:
    world = World()
    world.add_stream("a", range(200_000), abilities())
    world.add_stream("b", range(2_000), abilities(ReadMaxRows(100)))
    records = run(world, lambda n, rows: 200 + rows)
    assert max(limits(records, 1)) == 100
    for record in records[10:20]:
        assert abs(record.batch_duration_ms - TARGET) <= 0.25 * TARGET


# What cannot be paced.


def failure_of(world: World, trigger: Trigger | None = None) -> BaseException | None:
    execution = world.query(trigger, pace_ms=TARGET)
    execution.start()
    execution._thread.join_stopped(PATIENCE, "test", lambda: "")
    return execution.failure.__cause__ if execution.failure else None


def test_a_query_whose_sources_take_no_limits_is_refused() -> None:
    world = World()
    world.add_source("a", [1])
    failure = failure_of(world)
    assert isinstance(failure, PaceError)
    assert "Numbers[a] takes no read limit from the engine. Remove pace(), or use" in str(failure)
    assert world.plan.output == {}


def test_a_trigger_that_reads_everything_at_once_is_refused() -> None:
    world = World()
    world.add_stream("a", [1], Abilities(admission_control=True))
    assert isinstance(failure_of(world, OneTimeTrigger()), PaceError)
    failure = failure_of(world, AvailableNowTrigger())
    assert "With availableNow, every source has to support it" in str(failure)


def test_one_source_of_several_that_takes_no_limits_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.add_stream("a", range(3000), abilities())
    world.add_stream("b", range(3000), Abilities(available_now=True))
    records = run(world, lambda n, rows: 1)
    assert "pace() has no effect on source Numbers[b], which takes no read limit" in caplog.text
    assert records[0].sources[1].pace is None
    assert [p.num_input_rows for p in records] == [4000, 2000]


def test_a_source_in_the_wrapper_for_available_now_takes_no_limits() -> None:
    stream = NumberStream("a", range(5), [], Abilities(admission_control=True))
    assert stream.limit_unit is LimitUnit.ROWS
    assert AvailableNowDataStreamWrapper(stream).limit_unit is None


class Deaf(NumberStream):
    """Has read limits and ignores them."""

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        return super().latest_offset(start, ALL_AVAILABLE)


def test_a_source_that_does_not_follow_its_limit_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.sources.append(Deaf("a", range(5000), world.calls, abilities()))
    run(world, lambda n, rows: 1)
    assert (
        "pace() has no effect on source Numbers[a]: it read 5000 rows with a limit of 1000"
        in caplog.text
    )


# Units.


@pytest.mark.parametrize(
    ("own", "unit", "most", "first"),
    [
        (ALL_AVAILABLE, LimitUnit.ROWS, None, ReadMaxRows(1000)),
        (ReadMaxFiles(100), LimitUnit.FILES, 100, ReadMaxFiles(1)),
        (ReadMaxBytes(5), LimitUnit.BYTES, 5, ReadMaxBytes(5)),
        (ReadMinRows(7, 9), LimitUnit.ROWS, None, (ReadMinRows(7, 9), ReadMaxRows(1000))),
        (
            CompositeReadLimit((ReadMinRows(7, 9), ReadMaxRows(50))),
            LimitUnit.ROWS,
            50,
            (ReadMinRows(7, 9), ReadMaxRows(50)),
        ),
        (
            CompositeReadLimit((ReadMaxFiles(3), ReadMaxBytes(9))),
            LimitUnit.FILES,
            3,
            (ReadMaxBytes(9), ReadMaxFiles(1)),
        ),
    ],
)
def test_the_unit_and_the_bound_are_those_of_the_job(
    own: ReadLimit, unit: LimitUnit, most: int | None, first: ReadLimit | tuple[ReadLimit, ...]
) -> None:
    stream = NumberStream("a", range(5), [], abilities(own))
    assert stream.limit_unit is unit
    assert unit.most_of(own) == most
    unique = UniqueSource(stream, own, stream)
    Pacing(TARGET, [unique])
    assert unique.limit == (CompositeReadLimit(first) if isinstance(first, tuple) else first)


class Other(ReadLimit):
    """A limit of a connector."""


def test_the_limit_of_a_connector_is_left_alone() -> None:
    assert unit_of(Other(), LimitUnit.ROWS) is None
    assert unit_of(ALL_AVAILABLE, LimitUnit.FILES) is LimitUnit.FILES


def record_of(start: str | None, end: str | None, rows: int = 0) -> SourceProgress:
    return SourceProgress("s", start, end, None, rows, 0.0, 0.0)


def progress_of(*sources: SourceProgress) -> StreamingQueryProgress:
    world = World()
    world.add_stream("a", range(1), abilities())
    [made] = run(world, lambda n, rows: 1, pace_ms=None)
    object.__setattr__(made, "sources", list(sources))
    return made


@pytest.mark.parametrize(
    ("start", "end", "rows", "reason"),
    [
        ('{"t":{"0":0}}', '{"t":{"0":990}}', 3, PaceReason.GROW),  # offsets, with gaps
        ('{"t":{"0":0}}', '{"t":{"0":10}}', 3, PaceReason.NO_BACKLOG),
        (None, '{"t":{"0":10}}', 1000, PaceReason.GROW),  # the first batch: its rows
    ],
)
def test_the_records_of_kafka_are_counted_by_offsets(
    start: str | None, end: str, rows: int, reason: PaceReason
) -> None:
    stream: DataStream = NumberStream("a", range(5), [], abilities())
    pacing = Pacing(TARGET, [UniqueSource(stream, ALL_AVAILABLE, stream)])
    pacing.observe([stream], progress_of(record_of(start, end, rows)), 100)
    assert pacing.states()[stream].reason is reason


class Files(NumberStream):
    """Counts the files of its batches."""

    def count_in(self, data: object, unit: LimitUnit) -> int | None:
        return data if isinstance(data, int) else None


def test_files_are_counted_in_the_data_of_a_batch() -> None:
    stream = Files("a", range(5), [], abilities(ReadMaxFiles(100)))
    pacing = Pacing(TARGET, [UniqueSource(stream, ReadMaxFiles(100), stream)])
    for files, limit in ((1, 4), (4, 16), (3, 16), (16, 64), (64, 100)):
        pacing.count(stream, files)
        pacing.observe([stream], progress_of(record_of("0", "1")), 10)
        assert pacing.states()[stream].limit == limit
    pacing.count(stream, 100)
    pacing.observe([stream], progress_of(record_of("0", "1")), 40 * TARGET)
    assert pacing.states()[stream].limit == 2
