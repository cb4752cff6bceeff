"""The loop of a query that is started again when it fails: from one run to the next."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from penstock.api.restart_policy import RestartPolicy
from penstock.api.stop_conditions import StopCondition
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import CheckpointError, StreamFailedError

_logger = logging.getLogger(__name__)


class RestartLoop:
    """The runs of one query, one after the other, and the thread that starts all but the first.

    That thread is started by whoever starts the query, so that every run inherits what the first
    one did: the scheduler's pool, job tags. `changed` guards all fields and is notified of changes.
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
        """`on_end` is called when the query ends between two runs."""
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
        """No run is started after this. Returns the one that is to be stopped."""
        with self.changed:
            self._stop_requested.set()
            return self.run

    def stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        """Let this run and every later one stop by a condition made for it."""
        with self.changed:
            self._stop_conditions.append(make)
            self.run.life.stop_after(make(self.run))

    def await_run_after(self, ended: StreamExecution | None) -> StreamExecution | None:
        """Wait for a run that has started, another than the one given. None if none will come."""
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
                if run.life.has_done_a_batch:
                    self._failures_in_a_row = 0
                self._note_failure(run.failure, run)
            return self.is_over

    # The thread.

    def _restart_failed_runs(self) -> None:
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
        """Wait until the next run is due, open it and start it, or note why that failed."""
        delay_ms = round(self._policy.delay(self._failures_in_a_row) * 1000)
        self._clock.wait_till_time(self._clock.time_millis() + delay_ms, self._stop_requested)
        try:
            run = None if self._stop_requested.is_set() else self._open_next()
            if run is None or not self._adopt(run):
                self._end(None, between_runs=True)
                return
            # Not under the lock: listeners hear of the start before it is over, and may ask.
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
        """Make a new run the query's, so that a stop reaches it. False if it was stopped before."""
        with self.changed:
            if self._stop_requested.is_set():
                return False
            _refuse_another_query(self.run, run)
            for make in self._stop_conditions:
                run.life.stop_after(make(run))
            self.run, self._failed_run = run, None
            self._is_starting = True
            self.waiting = None
            self.restarts += 1
            return True

    def _note_failure(self, failure: StreamFailedError, run: StreamExecution) -> None:
        """Decide whether another run follows, and let the thread know."""
        cause = failure.__cause__ or failure
        self.last_error = cause
        self._failures_in_a_row += 1
        is_too_often = self._failures_in_a_row > self._policy.max_restarts
        is_final = is_too_often or self._policy.is_fatal(cause) or run.session.is_stopped
        if is_final or self._stop_requested.is_set():
            self._end(failure)
            return
        delay = self._policy.delay(self._failures_in_a_row)
        self.waiting = f"Restarting in {delay:g} s after: {cause}"
        self._failed_run = run
        self._observer.on_awaiting_restart(run, self.waiting)
        self.changed.notify_all()
        _logger.warning(
            "Query %s: restart %s of %s in a row in %g s after: %s",
            run.identity,
            self._failures_in_a_row,
            self._policy.max_restarts,
            delay,
            cause,
        )

    def _end(self, failure: StreamFailedError | None, *, between_runs: bool = False) -> None:
        with self.changed:
            self.is_over = True
            self.waiting = self._failed_run = None
            self.failure = failure
            self._observer.on_awaiting_restart(self.run, None)
            if between_runs:
                # Under the lock: who is told that the query is over finds it in no list any more.
                self._on_end()
            self.changed.notify_all()


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
