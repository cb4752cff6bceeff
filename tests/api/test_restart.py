"""The restart policy on the in-memory engine: which failures are retried, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from penstock import StreamingQueryException
from penstock.api.restart import RestartingQuery
from penstock.api.restart_policy import RestartPolicy
from penstock.engine.data_stream import DataStream
from penstock.engine.events import QueryStartedEvent, QueryTerminatedEvent
from penstock.engine.triggers import (
    AvailableNowTrigger,
    ProcessingTimeTrigger,
    Schedule,
    Surroundings,
    Trigger,
)
from penstock.errors import (
    ConcurrentUpdateError,
    FollowedQueryFailedError,
    MissingBatchError,
    PaceError,
    UnsupportedError,
)
from tests.api.restarting import Restarting
from tests.engine.world import PATIENCE, ManualClock
from tests.streams import HeldClock, eventually


def test_the_delay_doubles_up_to_a_cap() -> None:
    policy = RestartPolicy(backoff=1.5, max_backoff=10)
    assert [policy.delay(n) for n in (1, 2, 3, 4, 5)] == [1.5, 3, 6, 10, 10]
    assert policy.delay(100_000) == 10


@pytest.mark.parametrize("given", [{"max_restarts": -1}, {"backoff": -1}, {"max_backoff": -0.5}])
def test_a_policy_has_no_negative_numbers(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        RestartPolicy(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"fatal": ("ValueError",)}, r"exception classes, not \('ValueError',\)"),
        ({"backoff": "1 second"}, "numbers of seconds, not '1 second'"),
    ],
)
def test_a_policy_of_other_types_is_refused_at_once(given: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        RestartPolicy(**given)


def caused_by(error: Exception) -> Exception:
    wrapper = RuntimeError("wrapped")
    wrapper.__cause__ = error
    return wrapper


def caused_by_itself() -> Exception:
    error = OSError("network")
    error.__cause__ = error
    return error


@pytest.mark.parametrize(
    ("error", "is_fatal"),
    [
        (RuntimeError("network"), False),
        (ConcurrentUpdateError("two"), True),
        (MissingBatchError("gone"), True),
        (AnalysisException("no such column"), True),
        (UnsupportedError("continuous"), True),
        (FollowedQueryFailedError("it failed"), True),
        (PaceError("no limits"), True),
        (caused_by(MissingBatchError("gone")), True),
        (caused_by(OSError("network")), False),
        (caused_by_itself(), False),
        (KeyboardInterrupt(), True),
    ],
)
def test_errors_that_a_restart_cannot_fix_are_fatal(error: BaseException, is_fatal: bool) -> None:
    assert RestartPolicy().is_fatal(error) is is_fatal


def test_a_query_continues_after_failures_with_the_same_handle() -> None:
    restarting = Restarting(RestartPolicy(backoff=2))
    restarting.errors = [RuntimeError("one"), RuntimeError("two")]
    query = restarting.start()
    query_id, first_run = query.id, restarting.runs[0].identity.run_id
    assert query.awaitTermination(int(PATIENCE)) is True
    assert not query.isActive
    assert query.exception() is None
    assert query.restarts == 2
    assert str(query.last_error) == "two"
    assert query.id == query_id
    assert query.runId != first_run
    assert restarting.world.plan.output == {n: [n] for n in range(5)}
    assert restarting.ends == [query]


def test_the_delay_grows_with_each_consecutive_failure() -> None:
    clock = ManualClock(now_ms=0)
    restarting = Restarting(RestartPolicy(backoff=2, max_backoff=5), clock)
    restarting.errors = [RuntimeError("boom")] * 3
    restarting.start().awaitTermination()
    assert clock.awaited == [2000, 6000, 11000]


def test_listeners_receive_the_events_of_each_run() -> None:
    restarting = Restarting(RestartPolicy())
    restarting.errors = [RuntimeError("one")]
    restarting.start().awaitTermination()
    events = [
        (type(event), event.run_id)
        for event in restarting.world.session.events
        if isinstance(event, (QueryStartedEvent, QueryTerminatedEvent))
    ]
    first, second = (run.identity.run_id for run in restarting.runs)
    assert events == [
        (QueryStartedEvent, first),
        (QueryTerminatedEvent, first),
        (QueryStartedEvent, second),
        (QueryTerminatedEvent, second),
    ]


def test_the_query_fails_after_max_restarts_consecutive_failures() -> None:
    restarting = Restarting(RestartPolicy(max_restarts=2))
    restarting.errors = [RuntimeError(f"number {n}") for n in range(1, 9)]
    query = restarting.start()
    with pytest.raises(StreamingQueryException, match="number 3"):
        query.awaitTermination()
    assert len(restarting.runs) == 3
    assert not query.isActive
    assert query.status["restarts"] == 2
    assert query.status["lastError"] == "number 3"
    assert query.exception() is query.exception()
    assert restarting.ends == [query]


def test_a_run_that_has_committed_a_batch_resets_the_count() -> None:
    restarting = Restarting(RestartPolicy(max_restarts=1))
    plan, failed = restarting.world.plan, set[int]()

    def fail_once_in_each_batch_but_the_first() -> None:
        batch_id = plan.requests[-1].batch_id
        if batch_id > 0 and batch_id not in failed:
            failed.add(batch_id)
            raise RuntimeError(f"batch {batch_id}")

    plan.on_run = fail_once_in_each_batch_but_the_first
    query = restarting.start()
    query.awaitTermination()
    assert query.restarts == 4
    assert plan.output == {n: [n] for n in range(5)}


def test_a_fatal_error_ends_the_query_at_once() -> None:
    restarting = Restarting(RestartPolicy())
    restarting.errors = [ConcurrentUpdateError("two of them")]
    query = restarting.start()
    with pytest.raises(StreamingQueryException, match="two of them"):
        query.awaitTermination(int(PATIENCE))
    assert query.restarts == 0
    assert len(restarting.runs) == 1


def test_a_query_with_a_pending_restart_is_active_and_can_be_stopped() -> None:
    clock = HeldClock()
    restarting = Restarting(RestartPolicy(backoff=2), clock)
    restarting.errors = [RuntimeError("no network")]
    query = restarting.start()
    assert clock.waiting.wait(PATIENCE)
    assert query.isActive
    assert query.exception() is None
    assert query.status["message"] == "Restarting in 2 s after: no network"
    assert query.status["isTriggerActive"] is False
    assert query.awaitTermination(1) is False
    assert restarting.ends == []
    query.stop(timeout=PATIENCE)
    assert not query.isActive
    assert query.exception() is None
    assert query.awaitTermination(1) is True
    eventually(lambda: restarting.ends == [query], "on_end to be called")
    assert len(restarting.runs) == 1
    query.stop()


def stop_at_boundary(query: RestartingQuery) -> None:
    query.stop_at_boundary()
    assert query.awaitTermination(int(PATIENCE)) is True


def stop_after_no_time(query: RestartingQuery) -> None:
    query.stop_after(time=0)
    assert query.awaitTermination(int(PATIENCE)) is True


@pytest.mark.parametrize("stop", [stop_at_boundary, stop_after_no_time])
def test_a_stop_at_the_boundary_cancels_a_pending_restart(
    stop: Callable[[RestartingQuery], None],
) -> None:
    clock = HeldClock()
    restarting = Restarting(RestartPolicy(), clock)
    restarting.errors = [RuntimeError("no network")]
    query = restarting.start()
    assert clock.waiting.wait(PATIENCE)
    stop(query)
    assert not query.isActive
    assert len(restarting.runs) == 1


def test_a_restart_that_fails_is_retried() -> None:
    restarting = Restarting(RestartPolicy())
    restarting.errors = [RuntimeError("one")]
    restarting.start_errors = [OSError("no connection"), OSError("still none")]
    query = restarting.start()
    query.awaitTermination()
    assert query.exception() is None
    assert query.restarts == 1
    assert str(query.last_error) == "still none"


def test_a_restart_that_fails_with_a_fatal_error_ends_the_query() -> None:
    restarting = Restarting(RestartPolicy())
    restarting.errors = [RuntimeError("one")]
    restarting.start_errors = [AnalysisException("the path is gone")]
    query = restarting.start()
    with pytest.raises(StreamingQueryException, match=r"could not be restarted.*is gone"):
        query.awaitTermination()
    eventually(lambda: restarting.ends == [query], "on_end to be called")


@pytest.mark.parametrize("after", [{"batches": 2}, {"offsets": {0: 1}}])
def test_stop_after_applies_to_the_next_run(after: dict[str, Any]) -> None:
    clock = HeldClock()
    restarting = Restarting(RestartPolicy(), clock)
    restarting.errors = [RuntimeError("one")]
    query = restarting.start()
    assert clock.waiting.wait(PATIENCE)
    query.stop_after(**after)
    clock.over.set()
    assert query.awaitTermination(int(PATIENCE)) is True
    assert restarting.world.plan.output == {0: [0], 1: [1]}


def test_process_all_available_waits_over_restarts() -> None:
    restarting = Restarting(RestartPolicy(), trigger=ProcessingTimeTrigger())
    restarting.errors = [RuntimeError("one")]
    query = restarting.start()
    query.processAllAvailable()
    assert restarting.world.plan.output == {n: [n] for n in range(5)}
    assert query.restarts == 1
    query.stop(timeout=PATIENCE)
    assert query.exception() is None


def test_process_all_available_raises_when_the_query_fails() -> None:
    restarting = Restarting(RestartPolicy(max_restarts=0))
    restarting.errors = [RuntimeError("one")]
    with pytest.raises(StreamingQueryException, match="one"):
        restarting.start().processAllAvailable()


class Recording(Trigger):
    """Records for each run whether it is a retry; fails in the runs of these numbers."""

    def __init__(self, failing: Sequence[int] = ()) -> None:
        self.retries: list[bool] = []
        self._failing = failing

    def schedule(self, sources: Sequence[DataStream], surroundings: Surroundings) -> Schedule:
        self.retries.append(surroundings.is_retry)
        if len(self.retries) - 1 in self._failing:
            raise OSError("no network")
        return AvailableNowTrigger().schedule(sources, surroundings)


def test_a_run_is_a_retry_after_a_failure_in_a_trigger() -> None:
    trigger = Recording(failing=[0, 2])
    restarting = Restarting(RestartPolicy(), trigger=trigger)
    restarting.errors = [RuntimeError("no network")]
    query = restarting.start()
    assert query.awaitTermination(int(PATIENCE))
    # The first run fails before a trigger, the second in one, the third before it can retry it.
    assert trigger.retries == [False, False, True, True]
