"""Listeners, stops and a lost checkpoint between two runs of a restarting query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from penstock import StreamingQueryException
from penstock.api import restart
from penstock.api.restart import RestartingQuery
from penstock.api.restart_policy import RestartPolicy
from penstock.checkpoint import CheckpointDirectory
from penstock.engine.clock import Clock
from penstock.engine.events import QueryEvent, QueryStartedEvent, QueryTerminatedEvent
from penstock.engine.settings import Settings
from penstock.engine.triggers import ProcessingTimeTrigger
from penstock.errors import CheckpointError, QueryStopTimeoutError, WrongThreadError
from tests.api.restarting import Restarting
from tests.engine.world import PATIENCE, ManualClock, NumberSession
from tests.memory_world.files import MemoryFiles
from tests.streams import HeldClock, eventually

ALL = {n: [n] for n in range(5)}


def restarted_once(clock: Clock | None = None) -> Restarting:
    """A query whose first run fails."""
    restarting = Restarting(RestartPolicy(), clock)
    restarting.errors = [RuntimeError("no network")]
    return restarting


class Meddler:
    """A listener that calls `meddle` with the query, on its thread, at the n-th event of a kind."""

    def __init__(
        self,
        restarting: Restarting,
        kind: type[QueryEvent],
        number: int,
        meddle: Callable[[RestartingQuery], object],
    ) -> None:
        self.has_meddled = threading.Event()
        self._restarting = restarting
        self._kind = kind
        self._left = number
        self._meddle = meddle
        restarting.world.session.on_event = self._hear

    def _hear(self, event: QueryEvent) -> None:
        if isinstance(event, self._kind):
            self._left -= 1
            if self._left == 0:
                self._meddle(self._restarting.query)
                self.has_meddled.set()


# Listeners.


@pytest.mark.parametrize(
    "ask",
    [
        lambda query: query.status,
        lambda query: query.exception(),
        lambda query: query.stop_after(batches=100),
    ],
)
def test_a_listener_may_read_a_query_that_is_restarted(
    ask: Callable[[RestartingQuery], object],
) -> None:
    restarting = restarted_once()
    meddler = Meddler(restarting, QueryStartedEvent, 2, ask)
    query = restarting.start()
    assert meddler.has_meddled.wait(PATIENCE)
    assert query.awaitTermination(int(PATIENCE)) is True
    assert restarting.world.plan.output == ALL


def test_a_listener_sees_the_new_run() -> None:
    restarting = restarted_once()
    seen: list[tuple[str, int, str]] = []
    meddler = Meddler(
        restarting,
        QueryStartedEvent,
        2,
        lambda query: seen.append((query.runId, query.restarts, query.status["message"])),
    )
    restarting.start()
    assert meddler.has_meddled.wait(PATIENCE)
    run_id = restarting.runs[1].identity.run_id
    assert seen == [(run_id, 1, "Initializing StreamExecution")]


@pytest.mark.parametrize(("kind", "number"), [(QueryStartedEvent, 2), (QueryTerminatedEvent, 1)])
def test_a_listener_may_stop_the_query_between_two_runs(
    kind: type[QueryEvent], number: int
) -> None:
    restarting = restarted_once()
    meddler = Meddler(restarting, kind, number, lambda query: query.stop())
    query = restarting.start()
    assert meddler.has_meddled.wait(PATIENCE)
    assert query.awaitTermination(int(PATIENCE)) is True
    assert not query.isActive
    assert query.exception() is None
    assert restarting.world.plan.output == {}
    eventually(lambda: restarting.ends == [query], "on_end to be called")


@pytest.mark.parametrize(
    "wait", [lambda query: query.processAllAvailable(), lambda query: query.awaitTermination()]
)
def test_waiting_in_a_listener_raises_wrong_thread_error(
    wait: Callable[[RestartingQuery], object],
) -> None:
    def is_refused(query: RestartingQuery) -> None:
        with pytest.raises(WrongThreadError):
            wait(query)

    restarting = restarted_once()
    meddler = Meddler(restarting, QueryStartedEvent, 2, is_refused)
    restarting.start()
    assert meddler.has_meddled.wait(PATIENCE)


# Stops.


def test_a_stop_before_the_next_run_has_started_stops_that_run() -> None:
    restarting = restarted_once()
    stopper = threading.Thread(target=lambda: restarting.query.stop(timeout=PATIENCE), daemon=True)

    def stop() -> None:
        stopper.start()
        eventually(lambda: not restarting.runs[1].is_active, "the stop to reach the run")

    restarting.on_start = stop
    query = restarting.start()
    assert query.awaitTermination(int(PATIENCE)) is True
    stopper.join(PATIENCE)
    assert not stopper.is_alive()
    assert query.exception() is None
    assert restarting.world.plan.output == {}


class Preparing:
    """A query whose next run is being opened until the test sets `may_end`."""

    def __init__(self) -> None:
        self.restarting = restarted_once()
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.restarting.on_prepare = self._prepare
        self.query = self.restarting.start()
        assert self.has_begun.wait(PATIENCE)

    def _prepare(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE)


def test_a_stop_raises_when_a_restart_exceeds_the_timeout() -> None:
    preparing = Preparing()
    query = preparing.query
    with pytest.raises(QueryStopTimeoutError, match=r"being restarted.*within 50 ms"):
        query.stop(timeout=0.05)
    assert query.isActive
    preparing.may_end.set()
    query.stop(timeout=PATIENCE)
    assert not query.isActive
    assert query.exception() is None
    assert len(preparing.restarting.runs) == 2
    assert preparing.restarting.world.plan.output == {}


def test_the_stop_timeout_of_the_session_applies_to_a_restart() -> None:
    preparing = Preparing()
    preparing.restarting.world.session.current_settings = Settings(stop_timeout_ms=50)
    with pytest.raises(QueryStopTimeoutError, match="within 50 ms"):
        preparing.query.stop()
    preparing.may_end.set()
    preparing.query.stop()
    assert not preparing.query.isActive


def test_the_timeout_of_a_stop_covers_the_run_and_the_restart_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preparing = Preparing()

    class Time:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    fake = Time()

    def stop_slowly(*, graceful: bool, timeout: float) -> None:
        fake.now += timeout

    monkeypatch.setattr(restart, "time", fake)
    monkeypatch.setattr(preparing.restarting.runs[0], "stop", stop_slowly)
    began = time.monotonic()
    with pytest.raises(QueryStopTimeoutError):
        preparing.query.stop(timeout=PATIENCE / 2)
    assert time.monotonic() - began < PATIENCE / 3
    preparing.may_end.set()


@pytest.mark.parametrize(
    "wait", [lambda query: query.processAllAvailable(), lambda query: query.awaitTermination()]
)
def test_a_waiter_during_a_failed_restart_waits_for_the_next_one(
    wait: Callable[[RestartingQuery], object],
) -> None:
    restarting = restarted_once()
    waiter = threading.Thread(target=lambda: wait(restarting.query), daemon=True)

    def fail_once() -> None:
        if waiter.ident is None:
            waiter.start()
            waiter.join(0.2)
            raise OSError("no more threads")

    restarting.on_start = fail_once
    query = restarting.start()
    assert query.awaitTermination(int(PATIENCE)) is True
    waiter.join(PATIENCE)
    assert not waiter.is_alive()
    assert query.restarts == 1
    assert str(query.last_error) == "no more threads"
    assert restarting.world.plan.output == ALL


# The count of consecutive failures.


def test_a_batch_resets_the_count_even_if_its_progress_is_no_longer_kept() -> None:
    settings = Settings(polling_delay_ms=1, progress_retention=2, no_data_progress_interval_ms=0)
    restarting = Restarting(
        RestartPolicy(max_restarts=1), trigger=ProcessingTimeTrigger(), settings=settings
    )
    restarting.errors = [RuntimeError("one")]
    query = restarting.start()
    query.processAllAvailable()

    def is_quiet() -> bool:
        progress = restarting.runs[-1].reporter.recent_progress
        return bool(progress) and all("addBatch" not in done.duration_ms for done in progress)

    eventually(is_quiet, "only records without a batch")
    restarting.errors = [RuntimeError("two")]
    restarting.stream.rows.append(5)
    eventually(lambda: 5 in restarting.world.plan.output or not query.isActive, "another batch")
    assert query.exception() is None
    assert query.restarts == 2
    query.stop(timeout=PATIENCE)


# The checkpoint.


def test_a_restart_on_a_checkpoint_with_another_id_fails() -> None:
    clock = HeldClock()
    restarting = restarted_once(clock)
    query = restarting.start()
    query_id = query.id
    assert clock.waiting.wait(PATIENCE)
    restarting.world.checkpoint = CheckpointDirectory(MemoryFiles())
    clock.over.set()
    with pytest.raises(StreamingQueryException, match=r"memory:/checkpoint.*emptied") as raised:
        query.awaitTermination(int(PATIENCE))
    assert isinstance(query.last_error, CheckpointError)
    assert query_id in str(raised.value)
    assert restarting.runs[1].identity.id in str(raised.value)
    assert query.id == query_id
    assert not query.isActive
    assert query.restarts == 0
    assert restarting.world.plan.output == {}
    eventually(lambda: restarting.ends == [query], "on_end to be called")


# The thread.


def test_every_run_inherits_from_the_thread_that_started_the_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, str] = {}

    class Recorded(threading.Thread):
        """Records the thread that starts it."""

        def start(self) -> None:
            made[self.name] = threading.current_thread().name
            super().start()

    def create_thread(self: object, target: Callable[[], None], name: str) -> threading.Thread:
        return Recorded(target=target, name=name, daemon=True)

    monkeypatch.setattr(NumberSession, "create_thread", create_thread)
    restarting = Restarting(RestartPolicy(), ManualClock())
    restarting.errors = [RuntimeError("one"), RuntimeError("two")]
    assert restarting.start().awaitTermination(int(PATIENCE)) is True
    first, second, third = (f"stream execution thread for {r.identity}" for r in restarting.runs)
    here = threading.current_thread().name
    restarts = f"restarts of query {restarting.runs[0].identity}"
    assert made == {restarts: here, first: here, second: restarts, third: restarts}


def test_a_query_of_a_stopped_session_is_not_restarted() -> None:
    restarting = restarted_once()
    restarting.world.session.stopped = True
    query = restarting.start()
    with pytest.raises(StreamingQueryException, match="no network"):
        query.awaitTermination(int(PATIENCE))
    assert not query.isActive
    assert query.restarts == 0
    assert restarting.ends == [query]


def test_a_query_whose_session_does_not_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(session: NumberSession) -> bool:
        raise ConnectionRefusedError

    monkeypatch.setattr(NumberSession, "is_stopped", property(refused))
    restarting = restarted_once()
    query = restarting.start()
    with pytest.raises(StreamingQueryException, match="no network"):
        query.awaitTermination(int(PATIENCE))
    assert (query.isActive, query.restarts, restarting.ends) == (False, 0, [query])


def test_a_query_is_restarted_after_an_error_without_a_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class ApiError(Exception):
        def __str__(self) -> str:
            raise AttributeError("response")

    restarting = restarted_once()
    restarting.errors = [ApiError()]
    query = restarting.start()
    assert query.awaitTermination(int(PATIENCE))
    assert query.restarts == 1
    assert "ApiError" in query.status["lastError"]
    assert "restart 1 of 10 in a row" in caplog.text


def test_creating_a_query_fails_if_its_restart_thread_cannot_be_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def create_thread(self: object, target: Callable[[], None], name: str) -> threading.Thread:
        raise AssertionError("no active Spark context")

    monkeypatch.setattr(NumberSession, "create_thread", create_thread)
    with pytest.raises(AssertionError, match="no active Spark context"):
        restarted_once()
