"""The handle of a streaming query, with PySpark's interface."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery

from penstock.api.arguments import check_timeout
from penstock.api.exceptions import StreamingQueryException
from penstock.api.pyspark_progress import as_pyspark
from penstock.api.stop_conditions import StopCondition, after_batches, after_offsets, check_seconds
from penstock.engine.following import Followers
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import StreamFailedError
from penstock.observe.watermark_report import WatermarkReport, report_watermark

if TYPE_CHECKING:
    from penstock.observe.watch import Watch


class StreamingQuery(PySparkStreamingQuery):
    """A query that Penstock runs.

    Returned by `DataStreamWriter.start`. Has the methods of PySpark's class of the same name and,
    in addition, `stop(graceful=True)`, `stop_after`, `step`, `run`, `explain_watermark` and
    `watch`. Every method may be called from any thread.
    """

    def __init__(self, execution: StreamExecution) -> None:
        self.followers = Followers()
        self._only_run = execution
        self._exception: StreamingQueryException | None = None

    @property
    def _execution(self) -> StreamExecution:
        """The current run, or the last one."""
        return self._only_run

    @property
    def _failure(self) -> StreamFailedError | None:
        """The error that ended the query, None if it did not fail."""
        return self._execution.failure

    @property
    def id(self) -> str:
        """The id of the query, the same after a restart from the same checkpoint."""
        return self._execution.identity.id

    @property
    def runId(self) -> str:
        """The id of this run; a new one after each start."""
        return self._execution.identity.run_id

    @property
    def name(self) -> str:
        """The name of the query, None if it has none."""
        return self._execution.identity.name  # type: ignore[return-value]  # None, as in PySpark

    @property
    def isActive(self) -> bool:
        """Whether the query is running."""
        return self._execution.is_active

    @property
    def status(self) -> dict[str, Any]:
        """The current status: `message`, `isDataAvailable` and `isTriggerActive`."""
        status = self._execution.reporter.status
        return {
            "message": status.message,
            "isDataAvailable": status.is_data_available,
            "isTriggerActive": status.is_trigger_active,
        }

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The latest progress records, oldest first."""
        recent = self._execution.reporter.recent_progress
        return [as_pyspark(progress) for progress in recent]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The latest progress record, None before the first."""
        last = self._execution.reporter.last_progress
        return None if last is None else as_pyspark(last)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait until the query has terminated.

        Raises StreamingQueryException if it failed. With a timeout in seconds, returns whether it
        has terminated within it; without one, returns None.
        """
        if timeout is None:
            self._raising(lambda: self._await_end(None))
            return None
        check_timeout(timeout)
        return bool(self._raising(lambda: self._await_end(timeout)))

    def processAllAvailable(self) -> None:
        """Wait until all data that is available at this moment is processed. Meant for tests.

        Raises StreamingQueryException if the query fails.
        """
        self._raising(self._execution.process_all_available)

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query and wait until it has stopped.

        Cancels the running batch, as Spark does; with `graceful`, lets it commit first. Raises
        QueryStopTimeoutError if the query has not stopped within `timeout` seconds (default:
        `spark.sql.streaming.stopTimeout`). On the query's own thread it does not wait; if a batch
        runs, for instance in `foreachBatch`, it raises StoppedError unless `graceful`, so that the
        batch is not committed and runs again at the next start.
        """
        self._execution.stop(graceful=graceful, timeout=timeout)

    def stop_after(
        self,
        *,
        batches: int | None = None,
        offsets: Mapping[int, Any] | None = None,
        time: float | None = None,
    ) -> None:
        """Stop the query at a batch boundary, when the first of the given conditions holds.

        Returns at once. `batches` is the number of batches from now. `offsets` maps the number of
        a source, counted from 0, to an offset that a committed batch must have reached: at least
        that number, or exactly that JSON value. `time` is in seconds from now.
        """
        if time is not None:
            check_seconds(time)
        if batches is not None:
            enough = after_batches(batches)
            self._stop_after(lambda _: enough)
        if offsets is not None:
            self._stop_after(lambda execution: after_offsets(execution, offsets))
        if time is not None:
            timer = threading.Thread(target=self._stop_unless_ended, args=(time,))
            timer.daemon = True  # must not keep the program from exiting
            timer.start()

    def stop_at_boundary(self) -> None:
        """Request that the query stops when the running batch is committed. Does not wait."""
        self._execution.stop_at_boundary()

    def step(self, timeout: float | None = None) -> StreamingQueryProgress | None:
        """Run exactly one trigger of a query that was started with `DataStreamWriter.stepped`.

        Returns the progress of the batch that ran, None if there was nothing to do. Raises
        StreamingQueryException if the query fails, and TimeoutError if the trigger does not finish
        within `timeout` seconds.
        """
        before = self._execution.reporter.last_progress
        stepped = self._raising(lambda: self._execution.step(timeout))
        if not stepped and self.isActive and timeout is not None:
            raise TimeoutError(f"the trigger did not finish within {timeout} s: {self.status}")
        after = self._execution.reporter.last_progress
        if after is None or after is before or "addBatch" not in after.duration_ms:
            return None
        return as_pyspark(after)

    def run(
        self,
        *,
        batches: int | None = None,
        until: Callable[[StreamingQuery], bool] | None = None,
        max_triggers: int = 1000,
    ) -> list[StreamingQueryProgress]:
        """Call `step` until `batches` batches have run, or until `until(query)` is true.

        With neither, until there is nothing left to do. Returns the progress of the batches that
        ran. Raises TimeoutError if that takes more than `max_triggers` triggers.
        """
        ran: list[StreamingQueryProgress] = []
        for _ in range(max_triggers):
            if batches is not None and len(ran) >= batches:
                return ran
            if until is not None and until(self):
                return ran
            progress = self.step()
            if progress is not None:
                ran.append(progress)
            elif not self.isActive or (batches is None and until is None):
                return ran
        raise TimeoutError(
            f"not finished after {max_triggers} triggers, {len(ran)} of which ran a batch; "
            "increase max_triggers if the query needs more"
        )

    def exception(self) -> StreamingQueryException | None:
        """The failure of the query, None if it is running or terminated without an error."""
        failure = self._failure
        if failure is None:
            return None
        if self._exception is None:
            self._exception = StreamingQueryException(failure)
        return self._exception

    def explain(self, extended: bool = False) -> None:
        """Print the physical plan of the latest batch."""
        print(self._execution.explain(extended=extended))

    def explain_watermark(self) -> WatermarkReport:
        """The watermark of the query and of each input, and which input holds it back.

        `print` the report, or display it in a notebook.
        """
        report = report_watermark(self._execution.runtime)
        return report.redacted(self._execution.redactor.text)

    def watch(self, *, refresh: float = 0.5) -> Watch:
        """Show the query live until it terminates or `stop` of the returned watch is called.

        Shows a table in a terminal, HTML in a notebook, and elsewhere one line per batch. Updates
        every `refresh` seconds.
        """
        from penstock.observe.watch import watch_query  # imported here because it imports rich

        return watch_query(self.id, refresh=refresh)

    def __repr__(self) -> str:
        state = self._execution.state.value
        return f"Streaming Query {self._execution.identity} [state = {state}]"

    def begin(self) -> None:
        """Start the query, called by its manager after registration; returns when it is running."""
        self._execution.start()

    def ends_with(self, run: StreamExecution) -> bool:
        """Called on the thread of a run that ends: whether the query ends with it."""
        return True

    def _await_end(self, timeout: float | None) -> bool:
        return self._execution.await_termination(timeout)

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        self._execution.life.stop_after(make(self._execution))

    def _stop_unless_ended(self, seconds: float) -> None:
        """Wait for the end of the query, and stop it at a batch boundary after `seconds`."""
        with contextlib.suppress(StreamFailedError):
            if not self._await_end(seconds):
                self.stop_at_boundary()

    def _raising(self, wait: Any) -> Any:
        """Call `wait`; raise a failure of the query as StreamingQueryException."""
        try:
            return wait()
        except StreamFailedError:
            exception = self.exception()
            assert exception is not None
            raise exception from exception.__cause__
