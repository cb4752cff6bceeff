"""The loop that restarts the failed runs of a query."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial

from penstock.api.restart_policy import RestartPolicy
from penstock.api.stop_conditions import StopCondition
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.error_text import error_text, or_else, shown
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import CheckpointError, StreamFailedError

_logger = logging.getLogger(__name__)


class RestartLoop:
    """The successive runs of one query, and the thread that starts all runs but the first.

    That thread is created on the thread that starts the query, so that every run inherits the same
    Spark local properties as the first, such as the scheduler pool and job tags. `changed` guards
    all fields and is notified of changes.
    """

    def __init__(
        self,
        first_run: StreamExecution,
        policy: RestartPolicy,
        open_next: Callable[[], StreamExecution],
        on_end: Callable[[], None],
        clock: Clock | None = None,
        observer: RunObserver | None = None,
    ) -> None:
        """`on_end` is called if the query ends between two runs."""
        self.changed = threading.Condition(threading.RLock())
        self.run = first_run
        self.is_over = False
        self.failure: StreamFailedError | None = None
        self.restarts = 0
        self.last_error: BaseException | None = None
        self.waiting: str | None = None
        self._policy = policy
        self._open_next = open_next
        self._on_end = on_end
        self._clock = clock or SystemClock()
        self._observer = observer or RunObserver()
        self._stop_requested = threading.Event()
        self._is_starting = False
        self._failed_run: StreamExecution | None = None
        self._failures_in_a_row = 0
        self._stop_conditions: list[Callable[[StreamExecution], StopCondition]] = []
        name = f"restarts of query {first_run.identity}"
        self._thread = first_run.session.create_thread(self._restart_failed_runs, name)

    def begin(self) -> None:
        """Start the first run."""
        self._thread.start()
        try:
            self.run.start()
        except BaseException:
            self._end(None)
            raise

    def request_stop(self) -> StreamExecution:
        """Prevent further restarts and return the current run, for the caller to stop."""
        with self.changed:
            self._stop_requested.set()
            return self.run

    def stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        """Give this run and every later one a stop condition created with `make`."""
        with self.changed:
            self._stop_conditions.append(make)
            self.run.life.stop_after(make(self.run))

    def await_run_after(self, ended: StreamExecution | None) -> StreamExecution | None:
        """Wait for a started run other than `ended`. Returns None if the query is over."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.is_over or (not self._is_starting and self.run is not ended)
            )
            return None if self.run is ended else self.run

    def ends_with(self, run: StreamExecution) -> bool:
        """Called on the thread of a run that ends: whether the query ends with it."""
        with self.changed:
            if run.failure is None:
                self._end(None)
            else:
                if run.life.batches:
                    self._failures_in_a_row = 0
                self._note_failure(run.failure, run)
            return self.is_over

    def _restart_failed_runs(self) -> None:
        """The body of the thread."""
        while (failed := self._await_failed_run()) is not None:
            with contextlib.suppress(StreamFailedError):
                failed.await_termination()
            while self._failed_run is failed:
                self._start_after(failed)

    def _await_failed_run(self) -> StreamExecution | None:
        with self.changed:
            self.changed.wait_for(lambda: self.is_over or self._failed_run is not None)
            return self._failed_run

    def _start_after(self, failed: StreamExecution) -> None:
        """Wait for the delay, then open and start the next run; record the error if that fails."""
        delay_ms = round(self._policy.delay(self._failures_in_a_row) * 1000)
        self._clock.wait_till_time(self._clock.time_millis() + delay_ms, self._stop_requested)
        try:
            run = None if self._stop_requested.is_set() else self._open_next()
            if run is None or not self._adopt(run):
                self._end(None, between_runs=True)
                return
            # Not under the lock: listeners are called during the start and may use the query.
            run.start()
        except BaseException as exc:
            with self.changed:
                if self.run is not failed:
                    self.run, self._failed_run = failed, failed
                    self.restarts -= 1
                self._note_failure(_start_failure(failed, exc), failed)
                if self.is_over:
                    self._on_end()
        finally:
            with self.changed:
                self._is_starting = False
                self.changed.notify_all()

    def _adopt(self, run: StreamExecution) -> bool:
        """Make `run` the current run, so that a stop reaches it. False if a stop was requested."""
        with self.changed:
            if self._stop_requested.is_set():
                return False
            _refuse_another_query(self.run, run)
            run.follow(self.run)
            for make in self._stop_conditions:
                run.life.stop_after(make(run))
            self.run, self._failed_run = run, None
            self._is_starting = True
            self.waiting = None
            self.restarts += 1
            return True

    def _note_failure(self, failure: StreamFailedError, run: StreamExecution) -> None:
        """Record a failure, decide whether to restart, and notify the thread.

        Raises nothing: the query would be neither over nor restarted.
        """
        cause = failure.__cause__ or failure
        self.last_error = cause
        self._failures_in_a_row += 1
        if self._stop_requested.is_set() or self._is_final(cause, run):
            self._end(failure)
            return
        delay = self._policy.delay(self._failures_in_a_row)
        self.waiting = f"Restarting in {delay:g} s after: {shown(cause)}"
        self._failed_run = run
        self._observer.on_awaiting_restart(run, self.waiting)
        self.changed.notify_all()
        _logger.warning(
            "Query %s: restart %s of %s in a row in %g s after: %s",
            run.identity,
            self._failures_in_a_row,
            self._policy.max_restarts,
            delay,
            shown(cause),
        )

    def _is_final(self, cause: BaseException, run: StreamExecution) -> bool:
        """Whether the query ends with this failure; so it does if that cannot be found out."""
        if self._failures_in_a_row > self._policy.max_restarts:
            return True
        try:
            return self._policy.is_fatal(cause) or run.session.is_stopped
        except Exception:
            _logger.warning("Query %s is not restarted", run.identity, exc_info=True)
            return True

    def _end(self, failure: StreamFailedError | None, *, between_runs: bool = False) -> None:
        with self.changed:
            self.is_over = True
            self.waiting = self._failed_run = None
            self.failure = failure
            self._observer.on_awaiting_restart(self.run, None)
            if between_runs:
                # Under the lock: a waiter that sees `is_over` must not find the query registered.
                self._on_end()
            self.changed.notify_all()


def _start_failure(ended: StreamExecution, cause: BaseException) -> StreamFailedError:
    """The error of a query whose restart failed."""
    identity = ended.identity
    reason = or_else(partial(ended.session.error_message, cause), error_text(cause))
    failure = StreamFailedError(
        f"Query [id = {identity.id}, runId = {identity.run_id}] could not be restarted: {reason}",
        {"id": identity.id, "runId": identity.run_id, "message": reason},
        f"=== Streaming Query ===\nIdentifier: {identity}",
        "-",
        "-",
    )
    failure.__cause__ = cause
    return failure


def _refuse_another_query(before: StreamExecution, execution: StreamExecution) -> None:
    """Raise CheckpointError if the query id in the checkpoint has changed since the last run."""
    known, found = before.identity.id, execution.identity.id
    if found != known:
        raise CheckpointError(
            f"The checkpoint {execution.checkpoint.root} has changed between two runs: query "
            f"{known} ran on it, and its query id is now {found}. It was emptied, moved or "
            "replaced, so a restart would process the stream from the beginning. Restore the "
            "checkpoint and start the query again, or start it as a new query if that is intended."
        )
