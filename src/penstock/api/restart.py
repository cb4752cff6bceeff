"""A query that is started again when it fails."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException

from penstock.api.backoff import Backoff
from penstock.api.errors import StreamingQueryException
from penstock.api.query import StreamingQuery
from penstock.api.stop_conditions import StopCondition
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import (
    CheckpointError,
    QueryStopTimeoutError,
    StreamFailedError,
    UnsupportedError,
    WrongThreadError,
)

_logger = logging.getLogger(__name__)

FATAL: tuple[type[BaseException], ...] = (CheckpointError, AnalysisException, UnsupportedError)
"""Errors that another try does not mend: the checkpoint, the query or the machine is at fault."""


@dataclass(frozen=True)
class RestartPolicy(Backoff):
    """Which failures are followed by another run, and after how long.

    A run that has done a batch ends the row of failures.
    """

    fatal: tuple[type[BaseException], ...] = FATAL

    def is_fatal(self, error: BaseException | None) -> bool:
        """Whether an error, or one that caused it, is not to be tried again.

        What is no Exception, such as KeyboardInterrupt, never is.
        """
        while error is not None:
            if isinstance(error, self.fatal) or not isinstance(error, Exception):
                return True
            error = error.__cause__
        return False


class RestartingQuery(StreamingQuery):
    """A query that goes on over failures: a new run on the same checkpoint after each.

    It is active, and whoever waits for it waits on, until a run ends well, is stopped, or fails
    for good. Between two runs it is what the last run left, except that `status` says what is
    coming. Progress is that of the current run.
    """

    def __init__(
        self,
        execution: StreamExecution,
        policy: RestartPolicy,
        start_next: Callable[[RestartingQuery], bool],
        on_end: Callable[[RestartingQuery], None],
        clock: Clock | None = None,
    ) -> None:
        """`start_next` makes the next run and hands it to `adopt`, whose answer it returns.

        `on_end` is called when the query ends between two runs.
        """
        super().__init__(execution)
        self._policy = policy
        self._start_next = start_next
        self._on_end = on_end
        self._clock = clock or SystemClock()
        self._changed = threading.Condition(threading.RLock())
        self._stop_requested = threading.Event()
        self._is_over = False
        self._starting: StreamExecution | None = None
        self._waiting: str | None = None
        self._failure: StreamFailedError | None = None
        self._failures_in_a_row = 0
        self._restarts = 0
        self._last_error: BaseException | None = None
        self._stop_conditions: list[Callable[[StreamExecution], StopCondition]] = []

    # What others may ask.

    @property
    def restarts(self) -> int:
        """How often it has been started again."""
        return self._restarts

    @property
    def last_error(self) -> BaseException | None:
        """What the last run that failed died of."""
        return self._last_error

    @property
    def isActive(self) -> bool:
        return not self._is_over

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing, how often it was started again, and what it died of last."""
        with self._changed:
            status = super().status
            if self._waiting is not None:
                status["message"] = self._waiting
            status["restarts"] = self._restarts
            status["lastError"] = None if self._last_error is None else str(self._last_error)
            return status

    def exception(self) -> StreamingQueryException | None:
        """What the query died of for good, None as long as it goes on."""
        with self._changed:
            if self._failure is None:
                return None
            if self._exception is None:
                self._exception = StreamingQueryException(self._failure)
            return self._exception

    # Waiting and stopping.

    def processAllAvailable(self) -> None:
        """Wait until all data that is available now is processed, by whichever run."""
        self._refuse_own_thread()
        ended: StreamExecution | None = None
        while (execution := self._await_run_after(ended)) is not None:
            try:
                return execution.process_all_available()
            except StreamFailedError:
                ended = execution
        if (exception := self.exception()) is not None:
            raise exception from exception.__cause__
        return None

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query, or the wait for its next run, and wait until it has.

        The bound holds for the whole of it, a restart that is under way included. A run that stops
        itself, or a listener on its thread, does not wait.
        """
        began = time.monotonic()
        with self._changed:
            self._stop_requested.set()
            execution = self._execution
        execution.stop(graceful=graceful, timeout=timeout)
        bound = _stop_bound(execution) if timeout is None else timeout
        left = None if bound is None else max(began + bound - time.monotonic(), 0)
        with contextlib.suppress(WrongThreadError, StreamFailedError):
            if not self._await_end(left):
                raise QueryStopTimeoutError(
                    f"Query {execution.identity} is being started again, which could not be "
                    f"stopped within {round((bound or 0) * 1000)} ms. It ends as soon as that is "
                    "done; call stop() once more to wait for it."
                )

    def stop_at_boundary(self) -> None:
        with self._changed:
            self._stop_requested.set()
            self._execution.stop_at_boundary()

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        with self._changed:
            self._stop_conditions.append(make)
            super()._stop_after(make)

    def _await_end(self, timeout: float | None) -> bool:
        self._refuse_own_thread()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_over, timeout):
                return False
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        with contextlib.suppress(StreamFailedError):
            if not self._execution.await_termination(left):
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def _await_run_after(self, ended: StreamExecution | None) -> StreamExecution | None:
        """Wait for a run that has started, another than the one given. None if none will come."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or (self._starting is None and self._execution is not ended)
            )
            return None if self._execution is ended else self._execution

    def _refuse_own_thread(self) -> None:
        """Raise WrongThreadError on the thread of the run, which would wait for itself."""
        with contextlib.suppress(StreamFailedError):
            self._execution.await_termination(0)

    # From one run to the next.

    def goes_on_after(self, execution: StreamExecution) -> bool:
        """Called on the thread of a run that ends: whether there will be another."""
        failure = execution.failure
        with self._changed:
            if failure is None:
                self._end(None)
                return False
            if execution.has_done_a_batch:
                self._failures_in_a_row = 0
            if not self._is_to_be_restarted(failure):
                return False
        if self._begin_restart(execution):
            return True
        with self._changed:
            self._end(failure)
        return False

    def adopt(self, execution: StreamExecution, start: Callable[[], None]) -> bool:
        """Make a new run the query's and start it. False if the query was stopped meanwhile.

        Raises CheckpointError if its checkpoint has another id than the runs before had.
        """
        with self._changed:
            if self._stop_requested.is_set():
                return False
            before = self._execution
            _refuse_another_query(before, execution)
            for make in self._stop_conditions:
                execution.stop_after(make(execution))
            # From here on a stop reaches the new run, which heeds it whenever it starts.
            self._execution = self._starting = execution
            self._waiting = None
            self._restarts += 1
        try:
            # Not under the lock: listeners hear of the start before it is over, and may ask.
            start()
        except BaseException:
            with self._changed:
                self._execution = before
                self._restarts -= 1
            raise
        finally:
            with self._changed:
                # By now the run may have failed, and the next one may be starting.
                if self._starting is execution:
                    self._starting = None
                self._changed.notify_all()
        return True

    def _is_to_be_restarted(self, failure: StreamFailedError) -> bool:
        """Decide, and note what was decided."""
        cause = failure.__cause__ or failure
        self._last_error = cause
        self._failures_in_a_row += 1
        is_too_often = self._failures_in_a_row > self._policy.max_restarts
        if self._stop_requested.is_set() or is_too_often or self._policy.is_fatal(cause):
            self._end(failure)
            return False
        delay = self._policy.delay(self._failures_in_a_row)
        self._waiting = f"Restarting in {delay:g} s after: {cause}"
        _logger.warning(
            "Query %s: restart %s of %s in a row in %g s after: %s",
            self._execution.identity,
            self._failures_in_a_row,
            self._policy.max_restarts,
            delay,
            cause,
        )
        return True

    def _begin_restart(self, ended: StreamExecution) -> bool:
        """Start the thread that restarts the query; called on that of the run that failed.

        So it inherits what that run had from whoever started it: the scheduler's pool, job tags.
        False if there can be no such thread, as when Spark is stopped.
        """
        has_begun = threading.Event()

        def restart() -> None:
            has_begun.set()
            self._restart(ended)

        try:
            name = f"restart of query {ended.identity}"
            thread = ended.session.create_thread(restart, name)
            thread.start()
            while not has_begun.wait(1.0) and thread.is_alive():
                pass
        except Exception:
            _logger.warning("Query %s: no thread to restart it", ended.identity, exc_info=True)
        return has_begun.is_set()

    def _restart(self, ended: StreamExecution) -> None:
        """Let the run that failed end, wait, and start another; again if that cannot be done."""
        with contextlib.suppress(StreamFailedError):
            ended.await_termination()
        while self._wait():
            try:
                if self._start_next(self):
                    return
            except BaseException as exc:
                with self._changed:
                    if not self._is_to_be_restarted(_start_failure(ended, exc)):
                        self._on_end(self)
                        return
        # Under the lock: who is told that the query is over finds that nobody knows it any more.
        with self._changed:
            self._end(None)
            self._on_end(self)

    def _wait(self) -> bool:
        """Wait until the next run is due; False if the query was stopped first."""
        delay_ms = round(self._policy.delay(self._failures_in_a_row) * 1000)
        self._clock.wait_till_time(self._clock.time_millis() + delay_ms, self._stop_requested)
        return not self._stop_requested.is_set()

    def _end(self, failure: StreamFailedError | None) -> None:
        self._is_over = True
        self._waiting = None
        self._failure = failure
        self._changed.notify_all()


def _start_failure(ended: StreamExecution, cause: BaseException) -> StreamFailedError:
    """The error of a query that could not be started again."""
    identity = ended.identity
    reason = ended.session.error_message(cause)
    failure = StreamFailedError(
        f"Query [id = {identity.id}, runId = {identity.run_id}] could not be started again: "
        f"{reason}",
        {"id": identity.id, "runId": identity.run_id, "message": reason},
        f"=== Streaming Query ===\nIdentifier: {identity}",
        "-",
        "-",
    )
    failure.__cause__ = cause
    return failure


def _refuse_another_query(before: StreamExecution, execution: StreamExecution) -> None:
    """Raise CheckpointError unless the checkpoint gives the new run the id it gave the last."""
    known, found = before.identity.id, execution.identity.id
    if found != known:
        raise CheckpointError(
            f"The checkpoint {execution.checkpoint.root} is not the one that query {known} has run "
            f"on: its id is {found}. It was emptied, moved or replaced between two runs, and to go "
            "on there would be to begin anew without saying so. Put the old checkpoint in place of "
            "what is there now, or choose to begin anew; then start the query yourself."
        )


def _stop_bound(execution: StreamExecution) -> float | None:
    """The seconds that the session gives a query to stop; None if it sets no bound."""
    return max(execution.session.settings_now().stop_timeout_ms, 0) / 1000 or None
