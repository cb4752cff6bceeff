"""The fault points: each is reached, in order, and a query recovers from a fault at each."""

from __future__ import annotations

import contextlib

import pytest

from penstock.engine.faults import NO_FAULTS, OF_EVERY_QUERY, FaultPoint
from penstock.engine.settings import Settings
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import StreamFailedError
from tests.engine.world import PATIENCE, RecordingFaults, StrikeError, World
from tests.memory_world.sources import Abilities

ABLE = Abilities(admission_control=True, available_now=True)
KEEP_ONE = Settings(min_batches_to_retain=1)

BEGIN = [
    FaultPoint.BEFORE_METADATA,
    FaultPoint.AFTER_METADATA,
    FaultPoint.BEFORE_SOURCES,
    FaultPoint.AFTER_SOURCES,
]
START = [FaultPoint.BEFORE_START_OFFSETS, FaultPoint.AFTER_START_OFFSETS]
ASK = [FaultPoint.BEFORE_LATEST_OFFSET, FaultPoint.AFTER_LATEST_OFFSET]
DECIDE = [FaultPoint.BEFORE_OFFSET_LOG, FaultPoint.AFTER_OFFSET_LOG]
LET_GO = [FaultPoint.BEFORE_SOURCE_COMMIT, FaultPoint.AFTER_SOURCE_COMMIT]
PURGE = [FaultPoint.BEFORE_PURGE, FaultPoint.BETWEEN_PURGES, FaultPoint.AFTER_PURGE]
RUN = [
    FaultPoint.BEFORE_GET_BATCH,
    FaultPoint.AFTER_GET_BATCH,
    FaultPoint.BEFORE_PLANNING,
    FaultPoint.AFTER_PLANNING,
    FaultPoint.BEFORE_SINK,
    FaultPoint.AFTER_SINK,
    FaultPoint.BEFORE_COMMIT_LOG,
    FaultPoint.AFTER_COMMIT_LOG,
]
END = [FaultPoint.BEFORE_STOP_SOURCES, FaultPoint.AFTER_STOP_SOURCES]


class CrashError(BaseException):
    """Stands for the end of the process."""


def run(world: World, faults: RecordingFaults) -> None:
    """Run a query over all available data; it may fail."""
    with contextlib.suppress(StrikeError):
        query = world.query(AvailableNowTrigger(), faults=faults)
        query.start()
        with contextlib.suppress(StreamFailedError):
            query.await_termination(PATIENCE)
        assert not query.is_active
        assert query.failure is None or isinstance(query.failure.__cause__, StrikeError)


def three_batches(world: World, faults: RecordingFaults) -> dict[int, list[int]]:
    """Three runs, each with one more row, so that the third batch purges old entries."""
    output: dict[int, list[int]] = {}
    for rows in (1, 2, 3):
        again = World(world.settings, world.files, world.clock)
        again.add_stream("a", range(rows), ABLE)
        run(again, faults)
        output.update(again.plan.output)
    return output


def test_the_points_are_reached_in_the_documented_order() -> None:
    faults = RecordingFaults()
    three_batches(World(KEEP_ONE), faults)
    batches = {
        number: [point for point, batch_id in faults.reached if batch_id == number]
        for number in range(3)
    }
    resumed = START[1:]
    assert batches[0] == [*resumed, *ASK, *DECIDE, *RUN]
    # At its end a run requests offsets once more, for the first batch of the next run.
    assert batches[1] == [*ASK, *resumed, *ASK, *DECIDE, *LET_GO, *RUN]
    assert batches[2] == [*ASK, *resumed, *ASK, *DECIDE, *LET_GO, *PURGE, *RUN]
    of_the_run = [point for point, batch_id in faults.reached if batch_id == -1]
    assert of_the_run == [*BEGIN, START[0], *END] * 3


def test_the_order_of_the_names_is_the_order_of_a_batch() -> None:
    of_any_query = list(OF_EVERY_QUERY)
    assert of_any_query == [*BEGIN, *START, *ASK, *DECIDE, *LET_GO, *PURGE, *RUN, *END]


def test_every_value_is_its_name_in_lower_case() -> None:
    assert all(point.value == point.name.lower() for point in FaultPoint)


def test_without_faults_every_point_is_reached() -> None:
    for point in FaultPoint:
        NO_FAULTS.reach(point, 0)


@pytest.mark.parametrize("point", OF_EVERY_QUERY)
@pytest.mark.parametrize("batch_id", [-1, 0, 1, 2])
def test_a_fault_at_any_point_loses_nothing_and_repeats_only_whole_batches(
    point: FaultPoint, batch_id: int
) -> None:
    world = World(KEEP_ONE)
    output: dict[int, list[int]] = {}
    for strike in ((point, batch_id), None):
        for rows in (1, 2, 3):
            again = World(world.settings, world.files, world.clock)
            again.add_stream("a", range(rows if strike else 3), ABLE)
            run(again, RecordingFaults(strike))
            for number, found in again.plan.output.items():
                assert output.setdefault(number, found) == found
    assert [row for number in sorted(output) for row in output[number]] == [0, 1, 2]
    assert world.checkpoint.commit_log.list_batches()[-1] == max(output)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_even_a_crash_at_the_end_wakes_waiting_threads() -> None:
    world = World()
    world.add_stream("a", range(3), ABLE)
    crash = RecordingFaults((FaultPoint.BEFORE_STOP_SOURCES, -1), CrashError())
    query = world.query(AvailableNowTrigger(), faults=crash)
    query.start()
    assert query.await_termination(PATIENCE)
    assert not query.is_active
    query._thread.join(PATIENCE)
