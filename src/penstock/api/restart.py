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
from penstock.errors import CheckpointError, StreamFailedError, UnsupportedError

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
        while True:
            execution = self._execution
            try:
                return execution.process_all_available()
            except StreamFailedError:
                if self._await_run_after(execution, None):
                    continue
                if (exception := self.exception()) is not None:
                    raise exception from exception.__cause__
                return None

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query, or the wait for its next run, and wait until it has."""
        with self._changed:
            self._stop_requested.set()
            execution = self._execution
        execution.stop(graceful=graceful, timeout=timeout)
        with self._changed:
            is_own_thread = self._waiting is None and not self._is_over
            if not is_own_thread:
                self._changed.wait_for(lambda: self._is_over, timeout)

    def stop_at_boundary(self) -> None:
        with self._changed:
            self._stop_requested.set()
            self._execution.stop_at_boundary()

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        with self._changed:
            self._stop_conditions.append(make)
            super()._stop_after(make)

    def _await_end(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            execution = self._execution
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            try:
                if not execution.await_termination(left):
                    return False
            except StreamFailedError:
                pass
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not self._await_run_after(execution, left):
                if self._failure is not None:
                    raise self._failure
                return self._is_over

    def _await_run_after(self, execution: StreamExecution, timeout: float | None) -> bool:
        """Wait until another run is there. False if there will be none, or not in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or self._execution is not execution, timeout
            )
            return self._execution is not execution

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
        threading.Thread(
            target=self._restart,
            args=(execution,),
            name=f"restart of query {execution.identity}",
            daemon=True,
        ).start()
        return True

    def adopt(self, execution: StreamExecution, start: Callable[[], None]) -> bool:
        """Make a new run the query's and start it. False if the query was stopped meanwhile.

        Raises CheckpointError if its checkpoint has another id than the runs before had.
        """
        with self._changed:
            if self._stop_requested.is_set():
                return False
            _refuse_another_query(self._execution, execution)
            before, self._execution = self._execution, execution
            try:
                for make in self._stop_conditions:
                    super()._stop_after(make)
                start()
            except BaseException:
                self._execution = before
                raise
            self._waiting = None
            self._restarts += 1
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
    failure = StreamFailedError(
        f"Query [id = {identity.id}, runId = {identity.run_id}] could not be started again: "
        f"{cause}",
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
