"""The progress and the events that the reporter produces."""

from __future__ import annotations

import pytest

from penstock.engine.batch_context import BatchContext
from penstock.engine.events import QueryEvent, QueryIdleEvent, QueryProgressEvent
from penstock.engine.next_batch import construct_next_batch
from penstock.engine.progress import (
    ExecutionStats,
    StateOperatorProgress,
    StreamingQueryProgress,
)
from penstock.engine.progress_reporter import ProgressReporter, StreamingQueryStatus
from penstock.engine.run_batch import run_batch
from penstock.engine.runtime import QueryRuntime
from penstock.engine.settings import Settings
from penstock.engine.start_offsets import populate_start_offsets
from penstock.engine.watermark import EventTimeStats
from tests.engine.numbers import NumberStream
from tests.engine.world import World


class Triggers:
    """Runs a query with one source, one trigger at a time, on this thread."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.world = World(settings or Settings(no_data_progress_interval_ms=100))
        self.source: NumberStream = self.world.add_stream("a")
        self.runtime: QueryRuntime = self.world.runtime()
        self.reporter: ProgressReporter = self.runtime.reporter
        self.context: BatchContext | None = None

    def trigger(self, *rows: int, took: int = 0) -> StreamingQueryProgress | None:
        """Run a trigger of the given duration, after new rows; returns its progress, if any."""
        before = len(self.reporter.recent_progress)
        self.source.rows.extend(rows)
        self.reporter.start_trigger()
        context = self.context or populate_start_offsets(self.runtime)
        context.is_current_batch_constructed = construct_next_batch(self.runtime, context)
        self.reporter.record_trigger_offsets(
            context.start_offsets, context.end_offsets, context.latest_offsets
        )
        with self.reporter.report_time_taken("triggerExecution"):
            self.world.clock.advance(took)
        if context.is_current_batch_constructed:
            run_batch(self.runtime, context)
            self.reporter.finish_trigger(self.world.plan, context, has_new_data=bool(rows))
            context = context.next()
        else:
            self.reporter.finish_no_execution_trigger(self.world.plan, context)
        self.context = context
        after = self.reporter.recent_progress
        return after[-1] if len(after) > before else None

    def events(self, kind: type[QueryEvent]) -> list[QueryEvent]:
        return [event for event in self.world.session.events if isinstance(event, kind)]


def made(progress: StreamingQueryProgress | None) -> StreamingQueryProgress:
    assert progress is not None
    return progress


# A trigger with a batch.


def test_a_batch_is_recorded_and_posted_to_listeners(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    triggers = Triggers()
    progress = made(triggers.trigger(1, 2, 3, took=2000))
    assert (progress.id, progress.run_id, progress.name) == ("the-id", "the-run", "numbers")
    assert progress.batch_id == 0
    assert progress.timestamp == "1970-01-01T00:00:01.000Z"
    assert progress.batch_duration_ms == 2000
    assert progress.duration_ms["triggerExecution"] == 2000
    assert progress.num_input_rows == 3
    assert progress.sink.num_output_rows == 3
    assert progress.sink.description == "NumberSink"
    assert triggers.events(QueryProgressEvent) == [QueryProgressEvent(progress)]
    assert triggers.reporter.last_progress is progress
    assert "Streaming query made progress: {" in caplog.text


def test_a_source_is_recorded_with_its_range_and_its_own_figures() -> None:
    triggers = Triggers()
    triggers.trigger(1)
    [source] = made(triggers.trigger(2, 3)).sources
    assert source.description == "Numbers[a]"
    assert (source.start_offset, source.end_offset, source.latest_offset) == ("0", "2", "2")
    assert source.metrics == {"consumed": "2"}


def test_a_source_used_twice_is_recorded_once() -> None:
    triggers = Triggers()
    triggers.world.sources.append(triggers.source)
    progress = made(triggers.trigger(1, 2))
    assert len(progress.sources) == 1
    assert progress.num_input_rows == 2


def test_rates_are_over_the_time_between_triggers_and_the_time_of_this_one() -> None:
    triggers = Triggers()
    [first] = made(triggers.trigger(1, 2, took=1000)).sources
    assert first.input_rows_per_second == 0.0  # the first trigger
    assert first.processed_rows_per_second == 2.0
    triggers.world.clock.advance(1000)
    [second] = made(triggers.trigger(3, 4, 5, 6, took=500)).sources
    assert second.input_rows_per_second == 2.0
    assert second.processed_rows_per_second == 8.0


def test_a_rate_over_no_time_is_left_out() -> None:
    triggers = Triggers()
    triggers.trigger(1)
    progress = made(triggers.trigger(2))
    assert "inputRowsPerSecond" not in progress.to_dict()
    assert progress.sources[0].processed_rows_per_second == 1000.0


def test_a_phase_that_runs_twice_is_the_sum() -> None:
    triggers = Triggers()
    triggers.reporter.start_trigger()
    for took in (3, 4):
        with triggers.reporter.report_time_taken("getBatch"):
            triggers.world.clock.advance(took)
    with triggers.reporter.report_time_taken("backwards"):
        triggers.world.clock.advance(-5)
    assert triggers.reporter._durations == {"getBatch": 7.0, "backwards": 0.0}


def test_a_new_trigger_begins_a_new_record() -> None:
    triggers = Triggers()
    triggers.trigger(1, took=50)
    assert made(triggers.trigger(2, took=7)).duration_ms["triggerExecution"] == 7


def test_event_time_has_the_watermark_the_batch_was_decided_with() -> None:
    triggers = Triggers()
    plan = triggers.world.plan
    plan.operators = ["w"]
    plan.figures = ExecutionStats(event_time={"max": "later"}, observed_metrics={"o": {"n": 1}})
    plan.stats_of = lambda request: [EventTimeStats("w", 0, 1, max_ms=60_000)]
    first, second = made(triggers.trigger(1)), made(triggers.trigger(2))
    assert first.event_time == {"max": "later", "watermark": "1970-01-01T00:00:00.000Z"}
    assert second.event_time["watermark"] == "1970-01-01T00:01:00.000Z"
    assert first.observed_metrics == {"o": {"n": 1}}


def test_a_query_without_watermark_has_no_event_time() -> None:
    assert made(Triggers().trigger(1)).event_time == {}


def test_a_sink_that_does_not_count_is_recorded_so() -> None:
    triggers = Triggers()
    triggers.world.plan.counts_rows = False
    assert made(triggers.trigger(1)).sink.num_output_rows == -1
    triggers.world.clock.advance(100)
    assert made(triggers.trigger()).sink.num_output_rows == -1


def test_a_trigger_cannot_be_finished_without_offsets_and_execution() -> None:
    triggers = Triggers()
    with pytest.raises(AssertionError, match="executed batch should provide"):
        triggers.reporter.finish_trigger(triggers.world.plan, BatchContext(), has_new_data=True)
    with pytest.raises(AssertionError, match="offsets of a trigger are recorded"):
        triggers.reporter.finish_no_execution_trigger(triggers.world.plan, BatchContext())


# A trigger without a batch.


def test_the_first_trigger_without_data_is_recorded_but_not_posted() -> None:
    triggers = Triggers()
    triggers.source.latest_offset = lambda start, limit: None  # type: ignore[method-assign]
    progress = made(triggers.trigger())
    assert progress.num_input_rows == 0
    assert progress.state_operators == ()
    assert progress.sink.num_output_rows == -1
    assert triggers.world.session.events == []


def test_an_idle_query_is_recorded_and_posted_at_every_interval() -> None:
    triggers = Triggers(Settings(no_data_progress_interval_ms=100))
    triggers.trigger(1)
    clock = triggers.world.clock
    told = []
    for _ in range(5):
        clock.advance(50)
        told.append(triggers.trigger() is not None)
    assert told == [False, True, False, True, False]
    idle = triggers.events(QueryIdleEvent)
    assert idle == [
        QueryIdleEvent("the-id", "the-run", "1970-01-01T00:00:01.100Z"),
        QueryIdleEvent("the-id", "the-run", "1970-01-01T00:00:01.200Z"),
    ]
    assert len(triggers.events(QueryProgressEvent)) == 1


def test_an_idle_query_is_logged_with_its_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    triggers = Triggers(Settings(no_data_progress_interval_ms=100))
    triggers.trigger(1)
    triggers.world.clock.advance(100)
    triggers.trigger()
    assert "Streaming query has been idle and waiting for new data more than 100 ms." in caplog.text


def test_an_idle_record_has_state_but_no_work() -> None:
    triggers = Triggers()
    state = StateOperatorProgress({"numRowsTotal": 5, "numRowsUpdated": 2})
    triggers.world.plan.operators = ["w"]
    triggers.world.plan.figures = ExecutionStats(state_operators=[state])
    assert made(triggers.trigger(1)).state_operators == [state]
    triggers.world.clock.advance(100)
    idle = made(triggers.trigger())
    assert idle.batch_id == 1
    assert idle.state_operators[0].fields["numRowsTotal"] == 5
    assert idle.state_operators[0].fields["numRowsUpdated"] == 0
    assert idle.sink.num_output_rows == 0
    assert idle.event_time == {"watermark": "1970-01-01T00:00:00.000Z"}


# Retention, warnings, status.


def test_recent_progress_is_bounded_as_in_spark() -> None:
    triggers = Triggers(Settings(progress_retention=3))
    for row in range(5):
        triggers.trigger(row)
    assert [p.batch_id for p in triggers.reporter.recent_progress] == [3, 4]
    nothing = Triggers(Settings(progress_retention=0))
    nothing.trigger(1)
    assert nothing.reporter.last_progress is None


def test_a_report_that_takes_longer_than_the_batch_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    triggers = Triggers()
    triggers.world.session.on_event = lambda event: triggers.world.clock.advance(61_000)
    triggers.trigger(1, took=10)
    assert (
        "Query progress update takes longer than batch processing time. Progress update takes "
        "61000 milliseconds. Batch processing takes 10 milliseconds"
    ) in caplog.text


def test_a_status_keeps_what_is_not_changed() -> None:
    reporter = Triggers().reporter
    assert reporter.status == StreamingQueryStatus("Initializing StreamExecution", False, False)
    reporter.update_status("Working", is_data_available=True)
    assert reporter.status == StreamingQueryStatus("Working", True, False)
    reporter.update_status(is_trigger_active=True)
    assert reporter.status == StreamingQueryStatus("Working", True, True)
    reporter.update_status(is_data_available=False)
    assert reporter.status == StreamingQueryStatus("Working", False, True)


def test_a_trigger_is_active_from_start_to_finish() -> None:
    triggers = Triggers()
    active: list[bool] = []
    triggers.world.plan.on_run = lambda: active.append(triggers.reporter.status.is_trigger_active)
    triggers.trigger(1)
    assert active == [True]
    assert not triggers.reporter.status.is_trigger_active
    triggers.trigger()
    assert not triggers.reporter.status.is_trigger_active
