"""The handle on a running query, with PySpark's names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery

from penstock.api.arguments import check_timeout
from penstock.api.exceptions import StreamingQueryException
from penstock.api.pyspark_progress import as_pyspark
from penstock.api.stop_conditions import StopCondition, after_batches, after_offsets
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import StreamFailedError
from penstock.observe.watermark_report import WatermarkReport, report_watermark

if TYPE_CHECKING:
    from penstock.observe.watch import Watch


class StreamingQuery(PySparkStreamingQuery):
    """A query that Penstock runs. Every method may be called from any thread."""

    def __init__(self, execution: StreamExecution) -> None:
        self._only_run = execution
        self._exception: StreamingQueryException | None = None

    @property
    def _execution(self) -> StreamExecution:
        """The current run, or the last one."""
        return self._only_run

    @property
    def _failure(self) -> StreamFailedError | None:
        """What the query as a whole died of."""
        return self._execution.failure

    @property
    def id(self) -> str:
        """The id that stays the same over restarts from the same checkpoint."""
        return self._execution.identity.id

    @property
    def runId(self) -> str:
        """The id of this run."""
        return self._execution.identity.run_id

    @property
    def name(self) -> str:
        """The name given to the query, None if it has none."""
        return self._execution.identity.name  # type: ignore[return-value]  # None, as in PySpark

    @property
    def isActive(self) -> bool:
        return self._execution.is_active

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing this moment."""
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
        """Wait for the end of the query; raises what it died of.

        With a timeout in seconds: whether it has ended by then.
        """
        if timeout is None:
            self._raising(lambda: self._await_end(None))
            return None
        check_timeout(timeout)
        return bool(self._raising(lambda: self._await_end(timeout)))

    def processAllAvailable(self) -> None:
        """Wait until all data that is available now is processed. Meant for tests."""
        self._raising(self._execution.process_all_available)

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query and wait until it has.

        At once, as Spark does; or, with `graceful`, when the batch that runs is committed. With a
        timeout in seconds: QueryStopTimeoutError if it has not stopped by then.
        """
        self._execution.stop(graceful=graceful, timeout=timeout)

    def stop_after(
        self,
        *,
        batches: int | None = None,
        offsets: Mapping[int, Any] | None = None,
        time: float | None = None,
    ) -> None:
        """Let the query stop by itself at a batch boundary: at the first of what is given.

        After so many batches from now; when the batch that is done has reached an offset (by the
        number of the source: at least that number, or exactly that JSON value); when so many
        seconds have passed.
        """
        if batches is not None:
            enough = after_batches(batches)
            self._stop_after(lambda _: enough)
        if offsets is not None:
            self._stop_after(lambda execution: after_offsets(execution, offsets))
        if time is not None:
            timer = threading.Timer(time, self.stop_at_boundary)
            timer.daemon = True  # nobody waits for it when the program ends
            timer.start()

    def stop_at_boundary(self) -> None:
        """Let the query stop when the batch that runs is committed. Does not wait for that."""
        self._execution.stop_at_boundary()

    def step(self, timeout: float | None = None) -> StreamingQueryProgress | None:
        """Run exactly one trigger; for a query started with `stepped()`.

        Returns the progress of the batch it ran, None if there was nothing to do. Raises what the
        query died of, and TimeoutError if the trigger is not over in time.
        """
        before = self._execution.reporter.last_progress
        stepped = self._raising(lambda: self._execution.step(timeout))
        if not stepped and self.isActive and timeout is not None:
            raise TimeoutError(f"the trigger was not over after {timeout} s: {self.status}")
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
        """Step until so many batches have run, or until a condition holds of the query.

        With neither: until there is nothing left to do. Returns the progress of the batches it
        ran. Raises TimeoutError after `max_triggers` triggers.
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
            f"not done after {max_triggers} triggers; {len(ran)} of them ran a batch"
        )

    def exception(self) -> StreamingQueryException | None:
        """What the query died of, None if it runs or ended well."""
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
        """Where each input's own watermark stands, and which one holds the query's back."""
        report = report_watermark(self._execution.runtime)
        return report.redacted(self._execution.redactor.text)

    def watch(self, *, refresh: float = 0.5) -> Watch:
        """Show the query live from now on, until it ends or the watch is stopped.

        As a table in a terminal, as HTML in a notebook, else as a line for each batch.
        """
        from penstock.observe.watch import watch_query  # not before: it imports rich

        return watch_query(self.id, refresh=refresh)

    def __repr__(self) -> str:
        state = self._execution.state.value
        return f"Streaming Query {self._execution.identity} [state = {state}]"

    def begin(self) -> None:
        """Start the query, which its manager has registered; returns when it runs."""
        self._execution.start()

    def ends_with(self, run: StreamExecution) -> bool:
        """Called on the thread of a run that ends: whether the query ends with it."""
        return True

    def _await_end(self, timeout: float | None) -> bool:
        return self._execution.await_termination(timeout)

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        self._execution.life.stop_after(make(self._execution))

    def _raising(self, wait: Any) -> Any:
        """Call something that waits, with a failure of the query as PySpark raises it."""
        try:
            return wait()
        except StreamFailedError:
            exception = self.exception()
            assert exception is not None
            raise exception from exception.__cause__
