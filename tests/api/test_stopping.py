"""Stopping at once, at a batch boundary, twice and with a timeout, and the logs after it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import StreamingQuery, StreamingQueryException, read_stream, write_stream
from penstock.api.restart_policy import RestartPolicy
from penstock.errors import QueryStopTimeoutError
from tests.api.restarting import Restarting
from tests.engine.world import failing
from tests.streams import (
    PATIENCE,
    Numbers,
    StandingNumbers,
    column,
    eventually,
    eventually_of,
    has_committed,
    log_entries,
    logged_offsets,
    run_available,
)


class Gate:
    """A foreachBatch function that blocks in one batch until the test opens it."""

    def __init__(self, batch_id: int) -> None:
        self._batch_id = batch_id
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.rows: list[int] = []

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if batch_id == self._batch_id:
            self.reached.set()
            assert self.opened.wait(PATIENCE)
        self.rows += column(df)


def start_gated(session: SparkSession, gate: Gate, checkpoint: Path) -> StreamingQuery:
    writer = write_stream(read_stream(Numbers(1000, at_most=1), session)).foreachBatch(gate)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    assert gate.reached.wait(PATIENCE)
    return query


def test_stopping_in_a_long_job_is_prompt_and_the_batch_runs_again(
    session: SparkSession, checkpoint: Path
) -> None:
    endless = F.expr("reflect('java.lang.Thread', 'sleep', 3600000L)")
    rows = read_stream(Numbers(3), session)
    writer = write_stream(rows.where(endless.isNull())).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    tracker = session.sparkContext.statusTracker()
    eventually_of(query, lambda: tracker.getActiveJobsIds(), "a running job")
    query.stop(timeout=PATIENCE)
    assert not query.isActive
    assert query.exception() is None
    assert log_entries(checkpoint, "offsets") == [0]
    assert log_entries(checkpoint, "commits") == []
    seen: list[int] = []
    again = read_stream(StandingNumbers(5), session)
    run_available(again, lambda df, _: seen.extend(column(df)), checkpoint)
    assert logged_offsets(checkpoint, 0) == [3]
    assert seen == [0, 1, 2, 3, 4]


def test_stopping_while_there_is_nothing_to_do(session: SparkSession) -> None:
    numbers = Numbers(1)
    query = write_stream(read_stream(numbers, session)).format("noop").start()
    query.processAllAvailable()
    query.stop()
    assert not query.isActive
    assert numbers.is_stopped


def test_stopping_while_it_waits_for_the_next_trigger(session: SparkSession) -> None:
    writer = write_stream(read_stream(Numbers(1), session)).format("noop")
    query = writer.trigger(processingTime="1 hour").start()
    has_committed(query, 0)
    query.stop(timeout=PATIENCE)
    assert not query.isActive


def test_stopping_twice_and_from_several_threads(session: SparkSession) -> None:
    query = write_stream(read_stream(Numbers(1000, at_most=1), session)).format("noop").start()
    has_committed(query, 1)
    threads = [threading.Thread(target=query.stop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    query.stop()
    query.stop(graceful=True)
    assert query.exception() is None


def test_stopping_right_after_the_start(session: SparkSession) -> None:
    for _ in range(5):
        query = write_stream(read_stream(Numbers(10), session)).format("noop").start()
        query.stop(timeout=PATIENCE)
        assert not query.isActive
        assert query.exception() is None


def test_a_graceful_stop_lets_the_running_batch_commit(
    session: SparkSession, checkpoint: Path
) -> None:
    gate = Gate(batch_id=2)
    query = start_gated(session, gate, checkpoint)
    stopper = threading.Thread(target=lambda: query.stop(graceful=True))
    stopper.start()
    gate.opened.set()
    stopper.join(PATIENCE)
    assert not stopper.is_alive()
    assert query.exception() is None
    commits = log_entries(checkpoint, "commits")
    assert 2 in commits
    assert commits == log_entries(checkpoint, "offsets")
    assert gate.rows == commits


def test_a_stop_that_times_out_raises_with_the_status_of_the_query(
    session: SparkSession, checkpoint: Path
) -> None:
    session.conf.set("spark.sql.streaming.stopTimeout", "50ms")
    gate = Gate(batch_id=0)
    query = start_gated(session, gate, checkpoint)
    with pytest.raises(QueryStopTimeoutError, match="failed to stop within 50 milliseconds"):
        query.stop()
    with pytest.raises(TimeoutError, match="Processing new data"):
        query.stop(timeout=0.01)
    gate.opened.set()
    query.stop(timeout=PATIENCE)
    assert not query.isActive


class StopsItself:
    """A foreachBatch function that stops its own query in batch 1."""

    def __init__(self, *, catches: bool = False, **how: bool) -> None:
        self.query: Any = None
        self.started = threading.Event()
        self.returned = False
        self._catches = catches
        self._how = how

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        assert self.started.wait(PATIENCE)
        if batch_id == 1:
            try:
                self.query.stop(**self._how)
                self.returned = True
            except Exception:
                if not self._catches:
                    raise

    def run(self, writer: Any, checkpoint: Path) -> None:
        """Run a writer to this function with the options of a query that goes on."""
        self.query = writer.foreachBatch(self).option("checkpointLocation", str(checkpoint)).start()
        self.started.set()
        assert self.query.awaitTermination(PATIENCE)
        assert self.query.exception() is None


ENGINES = ["penstock", pytest.param("spark", marks=pytest.mark.extended)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("catches", "commits"), [(False, [0]), (True, [0, 1])])
def test_a_query_that_stops_itself_leaves_the_batch_as_with_spark(
    session: SparkSession, checkpoint: Path, engine: str, catches: bool, commits: list[int]
) -> None:
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    function = StopsItself(catches=catches)
    function.run(rows.writeStream if engine == "spark" else write_stream(rows), checkpoint)
    assert not function.returned
    assert log_entries(checkpoint, "offsets") == [0, 1]
    assert log_entries(checkpoint, "commits") == commits


def test_a_query_that_stops_itself_gracefully_commits_the_batch(
    session: SparkSession, checkpoint: Path
) -> None:
    function = StopsItself(graceful=True)
    function.run(write_stream(read_stream(Numbers(1000, at_most=1), session)), checkpoint)
    assert function.returned
    assert log_entries(checkpoint, "commits") == [0, 1]


def test_a_batch_that_stops_its_query_is_no_failure_of_the_batch(
    session: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    writer = write_stream(read_stream(Numbers(1000, at_most=1), session))
    StopsItself().run(writer.quarantine(str(tmp_path / "aside"), after=1), checkpoint)
    assert list((checkpoint / ".penstock" / "failures").iterdir()) == []


def test_a_stop_during_a_spark_job_of_foreach_batch_is_no_failure(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = threading.Event()

    def run_jobs(df: DataFrame, batch_id: int) -> None:
        running.set()
        endless = F.expr("reflect('java.lang.Thread', 'sleep', 3600000L)")
        df.where(endless.isNull()).count()

    writer = write_stream(read_stream(Numbers(3), session)).foreachBatch(run_jobs)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    assert running.wait(PATIENCE)
    tracker = session.sparkContext.statusTracker()
    eventually_of(query, lambda: tracker.getActiveJobsIds(), "a running job")
    query.stop(timeout=PATIENCE)
    assert query.exception() is None
    assert log_entries(checkpoint, "commits") == []
    assert [record.name for record in caplog.records if record.name.startswith("py4j")] == []


@pytest.mark.parametrize(
    ("after", "commits"), [({"batches": 2}, [0, 1]), ({"offsets": {0: 3}}, [0, 1, 2])]
)
def test_stop_after_batches_or_offsets(
    session: SparkSession, checkpoint: Path, after: dict[str, Any], commits: list[int]
) -> None:
    gate = Gate(batch_id=0)
    query = start_gated(session, gate, checkpoint)
    query.stop_after(**after)
    gate.opened.set()
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert log_entries(checkpoint, "commits") == commits
    assert gate.rows == commits


def test_stop_after_an_unknown_source_warns_and_never_stops(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(batch_id=0)
    query = start_gated(session, gate, checkpoint)
    with pytest.raises(ValueError, match="numbers of sources"):
        query.stop_after(offsets={-1: 2})
    query.stop_after(offsets={1: 2})
    query.stop_after(batches=2)
    gate.opened.set()
    assert query.awaitTermination(60)
    assert log_entries(checkpoint, "commits") == [0, 1]
    messages = [record.getMessage() for record in caplog.records]
    assert len([text for text in messages if "the query has no source 1" in text]) == 1


def test_stop_after_with_an_offset_of_another_form_warns(
    session: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(batch_id=0)
    query = start_gated(session, gate, checkpoint)
    query.stop_after(offsets={0: "1"})
    query.stop_after(batches=2)
    gate.opened.set()
    assert query.awaitTermination(60)
    messages = [record.getMessage() for record in caplog.records]
    assert len([text for text in messages if 'another form than "1", such as 1' in text]) == 1


@pytest.mark.parametrize(("time", "error"), [("2 seconds", TypeError), (-1, ValueError)])
def test_stop_after_needs_a_number_of_seconds(time: Any, error: type[Exception]) -> None:
    query = Restarting(RestartPolicy()).query
    with pytest.raises(error, match=f"time of stop_after must .*{time}"):
        query.stop_after(time=time)


def test_stop_after_a_time_stops_at_the_batch_boundary(
    session: SparkSession, checkpoint: Path
) -> None:
    gate = Gate(batch_id=1)
    query = start_gated(session, gate, checkpoint)
    query.stop_after(time=0)
    eventually(lambda: query._execution.life.is_stopping, "the time to be up")
    assert query.isActive
    gate.opened.set()
    assert query.awaitTermination(60)
    assert log_entries(checkpoint, "commits") == [0, 1]
    assert log_entries(checkpoint, "offsets") == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_stop_after_a_time_does_not_wait_for_a_query_that_has_ended(
    restarts: bool, fails: bool
) -> None:
    before = set(threading.enumerate())
    made = Restarting(RestartPolicy(max_restarts=0))
    query = made.query if restarts else StreamingQuery(made.world.query(made.trigger))
    gate = made.world.gate()

    def run_batch() -> None:
        gate()
        if fails:
            failing()

    made.world.plan.on_run = run_batch
    query.begin()
    gate.wait_entered()
    query.stop_after(time=3600)
    gate.open()
    with contextlib.suppress(StreamingQueryException):
        assert query.awaitTermination(int(PATIENCE))
    assert (query.exception() is not None) is fails
    eventually(lambda: set(threading.enumerate()) <= before, "the end of all threads")


def test_a_graceful_stop_that_times_out_raises_and_the_batch_still_commits(
    session: SparkSession, checkpoint: Path
) -> None:
    gate = Gate(batch_id=1)
    query = start_gated(session, gate, checkpoint)
    with pytest.raises(QueryStopTimeoutError, match="failed to stop within 20 milliseconds"):
        query.stop(graceful=True, timeout=0.02)
    gate.opened.set()
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert log_entries(checkpoint, "commits") == [0, 1]
