"""The handle of a query that is restarted when it fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from penstock.api.query import StreamingQuery
from penstock.api.restart_loop import RestartLoop
from penstock.api.restart_policy import RestartPolicy
from penstock.api.stop_conditions import StopCondition
from penstock.engine.clock import Clock
from penstock.engine.error_text import shown
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import QueryStopTimeoutError, StreamFailedError, WrongThreadError


class RestartingQuery(StreamingQuery):
    """A query that is restarted on its checkpoint after a failure, as its RestartPolicy allows.

    It is active until a run terminates without an error, it is stopped, or a failure is not
    followed by a restart. Between two runs its properties are those of the last run, except that
    `status` describes the pending restart. Progress is that of the current run only.
    """

    def __init__(
        self,
        first_run: StreamExecution,
        policy: RestartPolicy,
        open_next: Callable[[], StreamExecution],
        on_end: Callable[[StreamingQuery], None],
        clock: Clock | None = None,
        observer: RunObserver | None = None,
    ) -> None:
        """`open_next` opens another run; `on_end` is called if the query ends between two runs."""
        super().__init__(first_run)
        self._loop = RestartLoop(
            first_run, policy, open_next, lambda: on_end(self), clock, observer
        )

    @property
    def _execution(self) -> StreamExecution:
        return self._loop.run

    @property
    def _failure(self) -> StreamFailedError | None:
        return self._loop.failure

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return self._loop.restarts

    @property
    def last_error(self) -> BaseException | None:
        """The error of the last run that failed, None if none has."""
        return self._loop.last_error

    @property
    def isActive(self) -> bool:
        return not self._loop.is_over

    @property
    def status(self) -> dict[str, Any]:
        """The status of the query, with `restarts` and `lastError` in addition.

        While a restart is pending, `message` gives its delay and the error.
        """
        loop = self._loop
        with loop.changed:
            status = super().status
            if loop.waiting is not None:
                status["message"] = loop.waiting
            status["restarts"] = loop.restarts
            status["lastError"] = None if loop.last_error is None else shown(loop.last_error)
            return status

    def begin(self) -> None:
        self._loop.begin()

    def ends_with(self, run: StreamExecution) -> bool:
        return self._loop.ends_with(run)

    def processAllAvailable(self) -> None:
        """Wait until all data that is available at this moment is processed, over restarts too."""
        self._refuse_own_thread()
        ended: StreamExecution | None = None
        while (run := self._loop.await_run_after(ended)) is not None:
            try:
                return run.process_all_available()
            except StreamFailedError:
                ended = run
        if (exception := self.exception()) is not None:
            raise exception from exception.__cause__
        return None

    def stop(self, *, graceful: bool = False, timeout: float | None = None) -> None:
        """Stop the query, or cancel its pending restart, and wait until it has terminated.

        `timeout` covers the whole wait, including a restart that is in progress. On the
        thread of the run it does not wait, and in a batch it raises StoppedError unless `graceful`.
        """
        began = time.monotonic()
        run = self._loop.request_stop()
        run.stop(graceful=graceful, timeout=timeout)
        bound = run.stop_bound(timeout)
        left = None if bound is None else max(began + bound - time.monotonic(), 0)
        with contextlib.suppress(WrongThreadError, StreamFailedError):
            if not self._await_end(left):
                raise QueryStopTimeoutError(
                    f"Query {run.identity} is being restarted, and the restart did not finish "
                    f"within {round((bound or 0) * 1000)} ms. The query stops when it has; "
                    "call stop() again to wait for it."
                )

    def stop_at_boundary(self) -> None:
        with self._loop.changed:
            self._loop.request_stop().stop_at_boundary()

    def _stop_after(self, make: Callable[[StreamExecution], StopCondition]) -> None:
        self._loop.stop_after(make)

    def _await_end(self, timeout: float | None) -> bool:
        self._refuse_own_thread()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._loop.changed:
            if not self._loop.changed.wait_for(lambda: self._loop.is_over, timeout):
                return False
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        with contextlib.suppress(StreamFailedError):
            if not self._execution.await_termination(left):
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def _refuse_own_thread(self) -> None:
        """Raise WrongThreadError if called on the thread of the run, which would deadlock."""
        with contextlib.suppress(StreamFailedError):
            self._execution.await_termination(0)
