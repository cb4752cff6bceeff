"""Writes a batch to many sinks, with a durable entry for each sink that has finished it."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial

from penstock.checkpoint.sink_entries import SinkEntry, SinkEntryLog
from penstock.engine.batch_context import BatchContext
from penstock.engine.concurrent_runs import concurrent_update
from penstock.engine.error_text import error_text, one_line
from penstock.engine.faults import FaultPoint
from penstock.engine.named_sinks import NamedSink, SinkOutcome, SinkStatus, SinkWriter
from penstock.engine.runtime import QueryRuntime
from penstock.errors import ConcurrentUpdateError, SinkFailedError

_logger = logging.getLogger(__name__)


class SinkDelivery:
    """The many sinks of one run."""

    def __init__(self, runtime: QueryRuntime, sinks: Sequence[NamedSink]) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._planned_before: tuple[int, Collection[str], Collection[str]] | None = None
        self.sinks = sinks
        self.logs: dict[str, SinkEntryLog] = {
            sink.name: runtime.checkpoint.sink_log(sink.name) for sink in sinks
        }

    def resume_batch(self, batch_id: int, due: Collection[str], done: Collection[str]) -> None:
        """Set the sinks that a batch of an earlier run is for, and those that have an entry."""
        self._planned_before = batch_id, due, done

    def finished_before(self, batch_id: int) -> Collection[str]:
        """The sinks that have finished a batch in an earlier run."""
        if self._planned_before is None or self._planned_before[0] != batch_id:
            return ()
        return self._planned_before[2]

    def write(self, context: BatchContext) -> int | None:
        """Write a prepared batch to the sinks that have no entry for it.

        1. The batch is computed once. Without a sink to write to, only if it has other effects.
        2. Each sink gets it: in order, those that are parallel at the same time on other threads.
        3. When a sink has returned, its entry is written.

        Returns the number of rows of the batch, None if it was not computed. Raises
        SinkFailedError, when all threads have ended, if a sink has failed. A sink whose
        predecessor in the order has failed is not called.
        """
        assert context.execution is not None
        outcomes = {outcome.name: outcome for outcome in self._at_first(context.batch_id)}
        left = [sink for sink in self.sinks if sink.name not in outcomes]
        rows: int | None = None
        if left or context.execution.has_other_effects:
            deliver = partial(self._deliver, context, left, outcomes)
            rows = context.execution.run_for_sinks(deliver, is_wanted=bool(left))
        context.sink_outcomes = tuple(outcomes[sink.name] for sink in self.sinks)
        return rows

    def _at_first(self, batch_id: int) -> list[SinkOutcome]:
        """The outcomes that are known before the batch runs."""
        if self._planned_before is None or self._planned_before[0] != batch_id:
            return []
        _, due, done = self._planned_before
        found = []
        for sink in self.sinks:
            if sink.name in done:
                found.append(SinkOutcome(sink.name, sink.description, SinkStatus.DONE_BEFORE))
            elif sink.name not in due:
                found.append(SinkOutcome(sink.name, sink.description, SinkStatus.NOT_DUE))
        return found

    def _deliver(
        self,
        context: BatchContext,
        left: Sequence[NamedSink],
        outcomes: dict[str, SinkOutcome],
        write: SinkWriter,
    ) -> None:
        self._runtime.faults.reach(FaultPoint.AFTER_COMPUTING, context.batch_id)
        errors: list[BaseException] = []

        def attempt(sinks: Sequence[NamedSink]) -> None:
            try:
                for sink in sinks:
                    outcomes[sink.name] = self._write_to(sink, context, write)
            except BaseException as exc:  # it is raised on the query's thread
                errors.append(exc)

        threads = []
        for sink in left:
            if sink.parallel:
                try:
                    threads.append(self._start_thread(sink, context.batch_id, attempt, errors))
                except BaseException as exc:  # those that have started are waited for
                    errors.append(_not_called(sink, context.batch_id, exc))
        attempt([sink for sink in left if not sink.parallel])
        for thread in threads:
            thread.join()
        if errors:
            names = [sink.name for sink in self.sinks]
            is_of_stop = self._runtime.is_of_stop
            raise _combined(context.batch_id, errors, names, outcomes, is_of_stop)

    def _start_thread(
        self,
        sink: NamedSink,
        batch_id: int,
        attempt: Callable[[Sequence[NamedSink]], None],
        errors: list[BaseException],
    ) -> threading.Thread:
        """Start the thread of a parallel sink. If it ends before `attempt`, its error is kept."""
        has_begun = threading.Event()

        def write() -> None:
            has_begun.set()
            attempt([sink])

        in_context = partial(contextvars.copy_context().run, write)  # it belongs to the query
        thread = self._runtime.session.create_sink_thread(in_context, sink.name)
        run = thread.run

        def run_and_keep_error() -> None:
            try:
                run()
            except BaseException as exc:
                if has_begun.is_set():
                    raise
                errors.append(_not_called(sink, batch_id, exc))

        thread.run = run_and_keep_error  # type: ignore[method-assign]
        thread.start()
        return thread

    def _write_to(self, sink: NamedSink, context: BatchContext, write: SinkWriter) -> SinkOutcome:
        runtime, batch_id = self._runtime, context.batch_id
        started, started_ms = runtime.clock.elapsed_millis(), runtime.clock.time_millis()
        if not sink.parallel:
            runtime.reporter.update_status(f"Writing batch {batch_id} to sink {sink.name}")
        attempts = self._call(sink, batch_id, write)
        runtime.faults.reach(FaultPoint.BEFORE_SINK_ENTRY, batch_id)
        entry = SinkEntry(context.metadata.batch_timestamp_ms)
        with self._lock:
            if not self.logs[sink.name].add(batch_id, entry):
                raise concurrent_update(runtime, batch_id)
        runtime.faults.reach(FaultPoint.AFTER_SINK_ENTRY, batch_id)
        taken = round(runtime.clock.elapsed_millis() - started)
        status = SinkStatus.WRITTEN
        return SinkOutcome(sink.name, sink.description, status, taken, attempts, started_ms)

    def _call(self, sink: NamedSink, batch_id: int, write: SinkWriter) -> int:
        """Write to a sink, again after failures; returns the number of attempts.

        Raises StoppedError before each attempt if the query is stopped, unless gracefully.
        """
        runtime, attempts = self._runtime, 0
        while True:
            attempts += 1
            runtime.faults.reach(FaultPoint.BEFORE_NAMED_SINK, batch_id)
            runtime.require_not_stopped(f"sink {sink.name} was called")
            try:
                write(sink.name)
            except Exception as exc:
                if runtime.is_of_stop(exc):
                    raise
                if attempts > sink.retries:
                    raise SinkFailedError(sink.name, batch_id, attempts, _brief(exc)) from exc
                self._wait(sink, batch_id, attempts, exc)
            else:
                return attempts

    def _wait(self, sink: NamedSink, batch_id: int, failures: int, error: Exception) -> None:
        """Wait before the next attempt, no longer than until the query is stopped."""
        delay_ms = sink.delay_ms(failures)
        _logger.warning(
            "Sink %s failed in batch %s, attempt %s of %s; it is called again in %s ms: %s",
            sink.name,
            batch_id,
            failures,
            sink.retries + 1,
            delay_ms,
            _brief(error),
            exc_info=error,
        )
        clock = self._runtime.clock
        clock.wait_till_time(clock.time_millis() + delay_ms, self._runtime.terminating)


def _not_called(sink: NamedSink, batch_id: int, error: BaseException) -> SinkFailedError:
    """The error of a parallel sink whose thread has failed before it called the sink."""
    failure = SinkFailedError(sink.name, batch_id, 0, _brief(error))
    failure.__cause__ = error
    return failure


def _combined(
    batch_id: int,
    errors: Sequence[BaseException],
    names: Sequence[str],
    outcomes: Collection[str],
    is_of_stop: Callable[[BaseException], bool],
) -> BaseException:
    """The error of the batch.

    Another query on the checkpoint comes first, then any error that is not a failure of a sink,
    then the failures. Only if there are none of these, the query has been stopped.
    """
    failures = [error for error in errors if isinstance(error, SinkFailedError)]
    stops = [error for error in errors if is_of_stop(error)]
    if others := [error for error in errors if error not in failures and error not in stops]:
        return min(others, key=lambda error: not isinstance(error, ConcurrentUpdateError))
    if not failures:
        return stops[0]
    failed = {failure.sink for failure in failures}
    finished = [name for name in names if name in outcomes]
    missing = [name for name in names if name not in outcomes and name not in failed]
    first = failures[0]
    told = [str(failure) for failure in failures]
    if finished:
        told.append(f"Finished, and not called again for this batch: {listed(finished)}.")
    if missing:
        told.append(f"Not called: {listed(missing)}.")
    combined = SinkFailedError(first.sink, batch_id, first.attempts, first.reason, "\n".join(told))
    combined.__cause__ = first.__cause__
    return combined


def listed(names: Sequence[str]) -> str:
    """The names of sinks for a message."""
    return ", ".join(names)


def _brief(error: BaseException) -> str:
    return one_line(error_text(error))
