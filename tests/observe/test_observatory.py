"""The snapshots of the queries of a process, on the in-memory engine and on Spark."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import read_stream, write_stream
from penstock.engine.progress import StateOperatorProgress
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import StreamFailedError
from penstock.observe.observatory import RESTARTS_VARIABLE, Observatory
from penstock.redaction import REDACTED
from tests.engine.world import PATIENCE, World, failing
from tests.memory_world.sources import Abilities
from tests.streams import LineFiles, Numbers, eventually, has_committed


class Observed:
    """An in-memory world with an observatory whose clock advances one second per reading."""

    def __init__(self, world: World | None = None) -> None:
        ticks = itertools.count(100)
        self.observatory = Observatory(now=lambda: float(next(ticks)))
        self.world = world or World()

    def run(self, options: dict[str, str] | None = None) -> StreamExecution:
        """Run a query until all available data is processed."""
        query = self.start(options)
        query.await_termination(PATIENCE)
        return query

    def start(self, options: dict[str, str] | None = None) -> StreamExecution:
        query = self.world.query(
            AvailableNowTrigger(), name="numbers", options=options, observers=[self.observatory]
        )
        query.start()
        return query


def world_of(rows: int) -> World:
    world = World()
    abilities = Abilities(available_now=True, admission_control=True)
    world.add_stream("a", range(rows), abilities)
    return world


def test_the_snapshot_of_a_terminated_query() -> None:
    observed = Observed(world_of(5))
    query = observed.run({"path": "/x", "password": "hush"})
    [seen] = observed.observatory.snapshots()
    assert (seen.id, seen.run_id, seen.name) == (
        query.identity.id,
        query.identity.run_id,
        "numbers",
    )
    assert (seen.condition, seen.status, seen.label) == ("ended", "Stopped", "numbers")
    assert (seen.batch_id, seen.totals.batches, seen.totals.input_rows) == (0, 1, 5)
    assert seen.totals.output_rows == 5
    assert [batch.batch_id for batch in seen.batches] == [0]
    assert "triggerExecution" not in seen.batches[0].phases
    assert seen.sources[0].description == "Numbers[a]"
    assert seen.sources[0].lag == 0
    assert seen.ended_at is not None
    assert seen.last_progress_at is not None
    assert seen.started_at < seen.last_progress_at < seen.ended_at
    assert seen.options == {"path": "/x", "password": REDACTED}
    assert seen.checkpoint == "memory:/checkpoint"
    assert (seen.error, seen.restarts, seen.watermark, seen.state_rows) == (None, 0, None, None)


def test_the_snapshot_of_a_running_query() -> None:
    observed = Observed(world_of(5))
    gate = observed.world.gate()
    observed.world.plan.on_run = gate
    query = observed.start()
    gate.wait_entered()
    [seen] = observed.observatory.snapshots()
    assert (seen.condition, seen.status) == ("running", "Processing new data")
    assert seen.trigger_age == 0.0
    observed.world.clock.advance(7_000)
    [seen] = observed.observatory.snapshots()
    assert seen.trigger_age == 7.0
    assert seen.batch_id is None
    query.stop_at_boundary()
    assert observed.observatory.snapshots()[0].condition == "stopping"
    gate.open()
    query.await_termination(PATIENCE)
    assert observed.observatory.snapshots()[0].condition == "ended"


def test_secrets_are_redacted_from_a_failure() -> None:
    observed = Observed(world_of(5))
    observed.world.plan.on_run = lambda: failing("cannot reach db://me:hush@host")
    with pytest.raises(StreamFailedError):
        observed.run()
    [seen] = observed.observatory.snapshots()
    assert (seen.condition, seen.totals.failures) == ("failed", 1)
    assert seen.error == f"RuntimeError: cannot reach db://{REDACTED}@host"
    assert "hush" not in str(seen.to_dict())


def test_totals_continue_when_a_query_is_restarted() -> None:
    observed = Observed(world_of(5))
    observed.world.plan.on_run = failing
    with pytest.raises(StreamFailedError):
        observed.run()
    observed.world.plan.on_run = lambda: None
    observed.run()
    [seen] = observed.observatory.snapshots()
    assert (seen.condition, seen.restarts, seen.totals.failures) == ("ended", 1, 1)
    assert seen.totals.batches == 1
    assert seen.error == "RuntimeError: boom"


def test_a_start_after_a_run_without_an_error_is_no_restart() -> None:
    observed = Observed(world_of(5))
    for _ in range(3):
        observed.run()
    [seen] = observed.observatory.snapshots()
    assert (seen.restarts, seen.totals.failures, seen.totals.batches) == (0, 0, 1)


def test_restarts_of_the_process_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RESTARTS_VARIABLE, "3")
    observed = Observed(world_of(1))
    observed.run()
    assert observed.observatory.snapshots()[0].restarts == 3


def test_only_the_last_terminated_queries_are_kept() -> None:
    observed = Observed()
    ids = []
    for _ in range(52):
        observed.world = world_of(1)
        ids.append(observed.run().identity.id)
    assert [seen.id for seen in observed.observatory.snapshots()] == ids[2:]
    assert observed.observatory.snapshot(ids[0]) is None
    last = observed.observatory.snapshot(ids[-1])
    assert last is not None
    assert last.condition == "ended"


def test_state_is_summed_over_the_operators() -> None:
    observed = Observed(world_of(1))
    fields = {"numRowsTotal": 4, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2}
    operator = StateOperatorProgress(fields)
    plan = observed.world.plan
    plan.figures = type(plan.figures)(state_operators=[operator, operator])
    observed.run()
    [seen] = observed.observatory.snapshots()
    assert (seen.state_rows, seen.state_memory_bytes, seen.totals.late_rows) == (8, 200, 4)


def test_a_long_error_is_cut() -> None:
    observed = Observed(world_of(5))
    observed.world.plan.on_run = lambda: failing("x" * 10_000)
    with pytest.raises(StreamFailedError):
        observed.run()
    [seen] = observed.observatory.snapshots()
    assert seen.error is not None
    assert len(seen.error) == 2004


def test_a_query_whose_final_snapshot_fails_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    observed = Observed(world_of(5))
    observed.world.plan.describe_watermarks = failing  # type: ignore[method-assign,assignment]
    observed.run()
    assert observed.observatory.snapshots() == []
    assert "An observer of" in caplog.text


def test_a_failing_observer_does_not_affect_the_query(caplog: pytest.LogCaptureFixture) -> None:
    world = world_of(3)
    query = world.query(AvailableNowTrigger())
    query.reporter.observe(lambda progress: failing())
    query.start()
    query.await_termination(PATIENCE)
    assert world.plan.output == {0: [0, 1, 2]}
    assert "An observer of progress failed" in caplog.text


# On Spark.


def seen_of(query: penstock.StreamingQuery) -> penstock.QuerySnapshot:
    [found] = [seen for seen in penstock.snapshots() if seen.id == query.id]
    return found


def events(files: LineFiles, session: SparkSession, delay: str, name: str) -> DataFrame:
    times = files.stream(session).select(F.to_timestamp("value").alias(name))
    return times.withWatermark(name, delay)


def joined(session: SparkSession, tmp_path: Path) -> tuple[DataFrame, LineFiles, LineFiles]:
    """A join of two streams with watermarks, the second without an event yet."""
    left, right = LineFiles(tmp_path / "left"), LineFiles(tmp_path / "right")
    pair = events(left, session, "1 minute", "l").join(
        events(right, session, "10 seconds", "r"), F.expr("l = r and r >= l - interval 1 hour")
    )
    return pair, left, right


def test_the_report_names_the_input_that_blocks_the_watermark(
    session: SparkSession, tmp_path: Path
) -> None:
    pair, left, right = joined(session, tmp_path)
    left.add("2024-01-01 00:10:00")
    query = write_stream(pair).format("noop").start()
    has_committed(query, 0)
    report = query.explain_watermark()
    assert report.blocker is not None
    assert (report.blocker.column, report.blocker.delay_ms) == ("r", 10_000)
    assert str(tmp_path / "right") in report.blocker.label
    assert "no event seen in this run, delay 10 s  <- holds the watermark back" in str(report)
    right.add("2024-01-01 00:05:00")
    eventually(lambda: query.explain_watermark().watermark_ms > 0)
    report = query.explain_watermark()
    assert str(report).startswith("Watermark 2024-01-01T00:04:50.000Z, the min of 2:")
    seen = seen_of(query)
    assert seen.to_dict()["watermarkBlocker"].startswith("r of FileStreamSource")
    assert seen.state_rows is not None
    query.stop()
    assert query.explain_watermark() == report


def test_the_snapshot_of_a_query_on_spark_has_its_lag(session: SparkSession) -> None:
    numbers = Numbers(10, at_most=4)
    writer = write_stream(read_stream(numbers, session)).format("noop").queryName("lagging")
    query = writer.option("sinkToken", "hush").stepped().start()
    query.step()
    seen = seen_of(query)
    assert (seen.label, seen.batch_id, seen.input_rows, seen.lag) == ("lagging", 0, 4, 6)
    assert seen.options["sinkToken"] == REDACTED
    assert seen.processed_rows_per_second is not None
    query.stop()
    assert seen_of(query).condition == "ended"


def test_secrets_of_sources_and_sink_are_redacted_everywhere(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rates = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5)
    fast = rates.option("fishyThing", "hunter2").load().select(F.col("value").cast("string"))
    files = session.readStream.format("text").option("password", "hunter3")
    both = fast.union(files.load(str(tmp_path)))

    def fail(batch: DataFrame, batch_id: int) -> None:
        raise ValueError("told hunter2, hunter3 and hunter4")

    # A setting of the application, which cannot be set on a session.
    jconf = session._jsparkSession.sessionState().conf()
    jconf.setConfString("spark.redaction.regex", "(?i)fishy")
    try:
        writer = write_stream(both).foreachBatch(fail).option("sinkToken", "hunter4")
        query = writer.queryName("secretive").start()
        with pytest.raises(StreamingQueryException, match="told hunter2, hunter3 and hunter4"):
            query.awaitTermination(60)
    finally:
        jconf.unsetConf("spark.redaction.regex")
    error = seen_of(query).error
    assert error is not None
    assert f"told {REDACTED}, {REDACTED} and {REDACTED}" in error
    assert "hunter" not in str(seen_of(query).to_dict())
    assert "told" in caplog.text
    assert "hunter2, hunter3" not in caplog.text


def test_a_watch_of_a_query_ends_when_the_query_terminates(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write_stream(read_stream(Numbers(3), session)).format("noop").queryName("seen").start()
    watch = query.watch(refresh=0.01)
    has_committed(query, 0)
    query.stop()
    assert watch.wait(60)
    assert "penstock: seen batch 0: 3 rows in" in capsys.readouterr().err
