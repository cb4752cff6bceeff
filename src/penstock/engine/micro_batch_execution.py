"""Runs one trigger: constructs a batch, runs it, reports progress."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.engine.batch_context import BatchContext
from penstock.engine.log_context import enter_batch
from penstock.engine.next_batch import construct_next_batch
from penstock.engine.polling import Polling, WhenIdle
from penstock.engine.run_batch import run_batch
from penstock.engine.runtime import QueryRuntime
from penstock.engine.start_offsets import populate_start_offsets
from penstock.engine.triggers import Schedule

_logger = logging.getLogger(__name__)


class MicroBatchExecution:
    """Runs a query batch by batch, on the query's thread.

    `is_active` says whether to run another trigger; `finish` ends the query; `after_batch` is
    called after each batch is committed; `polling` is the wait after a trigger without a batch,
    unless the schedule says that the query then ends.
    """

    def __init__(
        self,
        runtime: QueryRuntime,
        schedule: Schedule,
        *,
        is_active: Callable[[], bool],
        finish: Callable[[], None],
        after_batch: Callable[[BatchContext], None] = lambda _: None,
        polling: Polling,
    ) -> None:
        self._runtime = runtime
        self._schedule = schedule
        self._is_active = is_active
        self._finish = finish
        self._after_batch = after_batch
        self._polling = polling
        self.context = BatchContext()

    def run_activated_stream(self) -> None:
        """Run batches when the trigger says so. Returns when the query ends."""
        self._schedule.executor.execute(self._run_one_trigger)

    def _run_one_trigger(self) -> bool:
        if self._is_active():
            reporter = self._runtime.reporter
            reporter.start_trigger()
            with reporter.report_time_taken("triggerExecution"):
                has_new_data = self._execute_trigger()
            if self.context.is_current_batch_constructed:
                self._finish_batch(has_new_data)
            else:
                reporter.finish_no_execution_trigger(self._runtime.plan, self.context)
            # After the report, so that a woken thread sees it.
            self._runtime.signal_progress()
            self._after_trigger()
        self._runtime.reporter.update_status("Waiting for next trigger")
        return self._is_active()

    def _finish_batch(self, has_new_data: bool) -> None:
        runtime, context = self._runtime, self.context
        taken_ms = runtime.reporter.trigger_elapsed_ms
        progress = runtime.reporter.finish_trigger(runtime.plan, context, has_new_data=has_new_data)
        if runtime.pacing is not None and context.pace:
            runtime.pacing.observe(runtime.plan.sources, progress, taken_ms)

    def _execute_trigger(self) -> bool:
        """Run the trigger's batch, if there is one; returns whether it has new data.

        The first trigger of a run reads the start offsets from the checkpoint. A batch that an
        earlier run has planned is not constructed again.
        """
        runtime = self._runtime
        if self.context.batch_id < 0:
            self.context = populate_start_offsets(runtime)
        context = self.context
        enter_batch(context.batch_id)
        # Before the sources are called: jobs that they run belong to this batch.
        description = runtime.identity.describe(context.batch_id)
        runtime.session.describe_jobs(context.batch_id, description)
        if not context.is_current_batch_constructed:
            context.is_current_batch_constructed = construct_next_batch(runtime, context)
        runtime.reporter.record_trigger_offsets(
            context.start_offsets, context.end_offsets, context.latest_offsets
        )
        # Read before the batch runs, which changes the result.
        has_new_data = context.is_new_data_available
        runtime.reporter.update_status(is_data_available=has_new_data)
        if context.is_current_batch_constructed:
            runtime.reporter.update_status(
                "Processing new data" if has_new_data else "No new data but cleaning up state"
            )
            run_batch(runtime, context)
        else:
            runtime.reporter.update_status("Waiting for data to arrive")
        return has_new_data

    def _after_trigger(self) -> None:
        if self.context.is_current_batch_constructed:
            self._polling.reset()
            self._after_batch(self.context)
            self.context = self.context.next()
        elif self._schedule.when_idle is WhenIdle.END:
            _logger.info(
                "Finished processing all available data for the trigger, terminating this "
                "Trigger.AvailableNow query"
            )
            self._finish()
        else:
            self._polling.wait(self._runtime.reporter.trigger_elapsed_ms / 1000)
