"""The manager of the streaming queries of a session, with PySpark's interface."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery
from pyspark.sql.streaming.query import StreamingQueryManager as PySparkStreamingQueryManager

from penstock.api.arguments import check_timeout
from penstock.api.exceptions import NameTakenError, StreamingQueryException
from penstock.api.process import PROCESS
from penstock.api.query import StreamingQuery
from penstock.api.query_start import QueryStart
from penstock.api.restart import RestartingQuery
from penstock.engine.progress import StreamingQueryProgress
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import ExecutionError
from penstock.observe.observatory import OBSERVATORY
from penstock.spark.session.session_facts import (
    conf_flag,
    is_run_by_spark,
    jvm_query_manager,
    session_key,
)

_logger = logging.getLogger(__name__)

_ATTRIBUTE = "_penstock_streams"
"""The attribute of a session that keeps its manager, and so what `awaitAnyTermination` knows."""

_SECONDS_BETWEEN_CALLS = 1.0
"""How long `awaitAnyTermination` waits before it asks the JVM again for ended queries of Spark."""

_STOP_ACTIVE_RUN = "spark.sql.streaming.stopActiveRunOnRestart"


class StreamingQueryManager(PySparkStreamingQueryManager):
    """The active queries of one session, including those of Spark's own engine.

    Has the methods of PySpark's class of the same name; `penstock.streams(spark)` returns it.
    Listeners are registered with Spark, so a listener that is added here receives the events of
    the queries of both engines.
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(jvm_query_manager(spark))
        self._queries: dict[str, StreamingQuery] = {}
        self._changed = threading.Condition()
        self._has_terminated = False
        self._last_exception: StreamingQueryException | None = None

    @property
    def active(self) -> list[PySparkStreamingQuery]:
        """The active queries of both engines."""
        return [*self._running_here(), *super().active]

    def get(self, id: str) -> PySparkStreamingQuery | None:
        """The active query with this id, None if there is none."""
        with self._changed:
            found = self._queries.get(id.lower())
        return found or super().get(id)

    def awaitAnyTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until a query of either engine has terminated since the last `resetTerminated`.

        Raises StreamingQueryException if that query failed. With a timeout in seconds, returns
        whether a query has terminated within it; without one, returns None. Notices the end of a
        query of Spark's own engine within a second.
        """
        if timeout is not None:
            check_timeout(timeout, zero_is_fine=True)
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        wait = 0.0
        while True:
            has_terminated = self._await_any_here(wait)
            # Also if a query has terminated here: one of Spark's may have failed.
            has_terminated = bool(super().awaitAnyTermination(0)) or has_terminated
            left = deadline - time.monotonic()
            if has_terminated or left <= 0:
                return None if timeout is None else has_terminated
            wait = min(left, _SECONDS_BETWEEN_CALLS)

    def resetTerminated(self) -> None:
        """Forget the terminated queries, so that `awaitAnyTermination` waits for the next one."""
        super().resetTerminated()
        with self._changed:
            self._has_terminated = False
            self._last_exception = None

    def _await_any_here(self, seconds: float) -> bool:
        """Wait for the end of a query that Penstock runs; raises its failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_terminated, seconds)
            if self._last_exception is not None:
                raise self._last_exception
            return self._has_terminated

    def start(self, start: QueryStart) -> StreamingQuery:
        """Open a query, start it and return its handle.

        Raises NameTakenError if an active query of the session has the same name, and
        ExecutionError if an active query of the process has the same id. With
        `spark.sql.streaming.stopActiveRunOnRestart` the active query of the same id is stopped
        first.
        """
        if start.restarts is not None:
            start.require_restartable()
        observers = (OBSERVATORY, *PROCESS.observers, _Runs(self))
        run = start.open(observers)
        query = self._handle(start, run, observers)
        self._refuse_taken_name(query.name)
        self._stop_or_refuse_active(start.df.sparkSession, query.id)
        self._register(query)
        try:
            query.begin()
        except BaseException:
            self._unregister(query)
            raise
        return query

    def _handle(
        self, start: QueryStart, run: StreamExecution, observers: Sequence[RunObserver]
    ) -> StreamingQuery:
        if start.restarts is None:
            return StreamingQuery(run)
        again = start.pinned_to(run.checkpoint.root)
        return RestartingQuery(
            run,
            start.restarts,
            open_next=lambda: again.open(observers),
            on_end=self.end,
            clock=start.restart_clock,
            observer=OBSERVATORY,
        )

    def run_committed(self, run: StreamExecution) -> None:
        """Called on the thread of a run when it has committed a batch."""
        with self._changed:
            query = self._queries.get(run.identity.id)
        if query is not None:
            query.followers.tell_committed()

    def run_ended(self, run: StreamExecution) -> None:
        """Called on the thread of a run when the run has ended."""
        with self._changed:
            query = self._queries.get(run.identity.id)
        if query is not None and query.ends_with(run):
            self.end(query)

    def end(self, query: StreamingQuery) -> None:
        """Remove a terminated query and notify the callers of `awaitAnyTermination`."""
        self._unregister(query)
        exception = query.exception()
        with self._changed:
            if not self._has_terminated or exception is not None:
                self._last_exception = exception
            self._has_terminated = True
            self._changed.notify_all()
        query.followers.tell_ended(exception)

    def _register(self, query: StreamingQuery) -> None:
        """Register the name and the id, unless another thread has registered either meanwhile."""
        with self._changed, PROCESS.lock:
            self._refuse_taken_name(query.name)
            query_id = query.id
            if query_id in PROCESS.running:
                raise ExecutionError(
                    f"Another instance of the query [id = {query_id}] was just started by a "
                    "concurrent session."
                )
            PROCESS.running[query_id] = query
            self._queries[query_id] = query

    def _running_here(self) -> list[StreamingQuery]:
        with self._changed:
            return list(self._queries.values())

    def _unregister(self, query: StreamingQuery) -> None:
        with PROCESS.lock:
            if PROCESS.running.get(query.id) is query:
                del PROCESS.running[query.id]
        with self._changed:
            if self._queries.get(query.id) is query:
                del self._queries[query.id]

    def _refuse_taken_name(self, name: str | None) -> None:
        if name is not None and any(query.name == name for query in self._running_here()):
            raise NameTakenError(
                f"Cannot start query with name {name} as a query with that name is already "
                "active in this SparkSession"
            )

    def _stop_or_refuse_active(self, spark: SparkSession, query_id: str) -> None:
        """Stop the active query with this id if the session is configured so; else raise."""
        with PROCESS.lock:
            active = PROCESS.running.get(query_id)
        if active is not None and conf_flag(spark, _STOP_ACTIVE_RUN):
            _logger.warning(
                "Stopping existing streaming query [id=%s, runId=%s], as a new run is being "
                "started.",
                query_id,
                active.runId,
            )
            active.stop()
        elif is_run_by_spark(spark, query_id):
            raise ExecutionError(
                f"Cannot start query with id {query_id} as another query with same id is run by "
                "Spark's own engine in this application. Stop that query, or use another "
                "checkpoint."
            )
        elif active is not None:
            raise ExecutionError(
                f"Cannot start query with id {query_id} as another query with same id is already "
                "active. Perhaps you are attempting to restart a query from checkpoint that is "
                "already active. You may stop the old query by setting the SQL configuration: "
                f'spark.conf.set("{_STOP_ACTIVE_RUN}", true) and retry.'
            )


class _Runs(RunObserver):
    """Tells a manager of the batches and the end of a run, and keeps the manager for the run."""

    def __init__(self, manager: StreamingQueryManager) -> None:
        self._manager = manager

    def on_progress(self, run: StreamExecution, progress: StreamingQueryProgress) -> None:
        if progress.ran_a_batch:
            self._manager.run_committed(run)

    def on_ended(self, run: StreamExecution) -> None:
        self._manager.run_ended(run)


def streams(spark: SparkSession) -> StreamingQueryManager:
    """The query manager of a session, as `spark.streams` of PySpark; one object per session."""
    key = session_key(spark)
    with PROCESS.lock:
        manager = PROCESS.managers.get(key)
        if manager is None:
            manager = PROCESS.managers[key] = StreamingQueryManager(spark)
    # No mapping with weak keys: the manager refers to the session by the error of a failed query.
    vars(spark)[_ATTRIBUTE] = manager
    return manager


def running_queries() -> list[StreamingQuery]:
    """The active queries of Penstock in this process, of all sessions."""
    with PROCESS.lock:
        return list(PROCESS.running.values())


def stop_run_at_boundary(run_id: str) -> bool:
    """Request that a run stops when its current batch is committed, without waiting for it.

    Returns False if no active run has this id.
    """
    query = next((query for query in running_queries() if query.runId == run_id), None)
    if query is not None:
        query.stop_at_boundary()
    return query is not None
