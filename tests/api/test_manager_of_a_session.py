"""How long the query manager of a session exists, with sessions that have no JVM and on Spark."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import read_stream, write_stream
from penstock.api import manager
from penstock.api.manager import streams
from penstock.api.process import PROCESS
from penstock.api.query_start import QueryStart
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from tests.engine.world import PATIENCE, World
from tests.streams import Numbers, eventually


class SparkQueries:
    """The JVM's manager, of a session without queries of Spark's own engine."""

    def awaitAnyTermination(self, timeout_ms: int) -> bool:
        return False


class Session:
    """Has what the manager needs of a session."""

    def __init__(self, key: str) -> None:
        self._jsparkSession = SimpleNamespace(sessionUUID=lambda: key)


class Start:
    """Starts a query over no data, on the in-memory engine."""

    restarts = None

    def __init__(self, session: SparkSession) -> None:
        self.df = SimpleNamespace(sparkSession=session)

    def open(self, observers: Sequence[RunObserver]) -> StreamExecution:
        world = World()
        world.add_stream()
        return world.query(observers=observers)


@pytest.fixture(autouse=True)
def without_jvm(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "session" not in request.fixturenames:
        monkeypatch.setattr(manager, "jvm_query_manager", lambda spark: SparkQueries())
        monkeypatch.setattr(manager, "is_run_by_spark", lambda spark, query_id: False)


def session_of(key: str) -> SparkSession:
    return cast(SparkSession, Session(key))


def start(session: SparkSession) -> Any:
    return streams(session).start(cast(QueryStart, Start(session)))


def is_released(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def test_a_session_that_is_no_longer_referenced_is_released() -> None:
    first, second = session_of("first"), session_of("second")
    kept, released = streams(first), weakref.ref(second)
    assert streams(second) is not kept
    del second
    assert is_released(released)
    assert "second" not in PROCESS.managers
    assert streams(first) is kept


def test_the_manager_is_the_same_for_all_objects_of_a_session() -> None:
    first, second = session_of("same"), session_of("same")
    kept = weakref.ref(streams(first))
    assert streams(second) is kept()
    del first
    gc.collect()
    assert streams(second) is kept()


def test_a_running_query_keeps_its_manager() -> None:
    query = start(session_of("dropped"))
    assert not is_released(weakref.ref(PROCESS.managers["dropped"]))
    query.stop(timeout=PATIENCE)
    assert streams(session_of("dropped")).awaitAnyTermination(PATIENCE) is True


def test_a_session_remembers_the_queries_that_have_terminated() -> None:
    session = session_of("remembers")
    start(session).stop(timeout=PATIENCE)
    gc.collect()
    assert streams(session).awaitAnyTermination(PATIENCE) is True


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_of_spark_is_released_after_its_queries(
    session: SparkSession, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "penstock")  # a record has the traceback, and so the session

    def run() -> weakref.ref[SparkSession]:
        other = session.newSession()
        writer = write_stream(read_stream(Numbers(1), other))
        query = writer.foreachBatch(fail if fails else pass_over).trigger(availableNow=True).start()
        eventually(lambda: not query.isActive, "the end of the query")
        return weakref.ref(other)

    released = run()
    run()  # PySpark keeps the latest session that has made a DataFrame
    eventually(lambda: is_released(released), "the release of the session")


def pass_over(df: DataFrame, batch_id: int) -> None:
    pass


def fail(df: DataFrame, batch_id: int) -> None:
    raise ValueError("boom")
