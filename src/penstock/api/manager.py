"""The queries of a session, with PySpark's names."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery as PySparkStreamingQuery
from pyspark.sql.streaming.query import StreamingQueryManager as PySparkStreamingQueryManager

from penstock.api.arguments import check_timeout
from penstock.api.errors import NameTakenError, StreamingQueryException
from penstock.api.observe import OBSERVATORY
from penstock.api.query import StreamingQuery
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import ExecutionError
from penstock.spark.session_facts import (
    conf_flag,
    is_run_by_spark,
    jvm_query_manager,
    session_key,
)

_logger = logging.getLogger(__name__)

_STOP_ACTIVE_RUN = "spark.sql.streaming.stopActiveRunOnRestart"


class StreamingQueryManager(PySparkStreamingQueryManager):
    """Knows the queries that run in one session, those of Spark's own engine too.

    Listeners are Spark's: one that is added here hears of the queries of both engines.
    """

    # Ids are unique in the whole process: two sessions may share a checkpoint, too.
    _running: dict[str, StreamingQuery] = {}  # noqa: RUF012  # shared on purpose
    _running_lock = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(jvm_query_manager(spark))
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}
        self._changed = threading.Condition()
        self._has_terminated = False
        self._last_exception: StreamingQueryException | None = None

    @property
    def active(self) -> list[PySparkStreamingQuery]:
        """The queries that run now."""
        return [*self._running_here(), *super().active]

    def get(self, id: str) -> PySparkStreamingQuery | None:
        """The running query of that id."""
        with self._changed:
            found = self._queries.get(str(uuid.UUID(id)))
        return found or super().get(id)

    def awaitAnyTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until any query of Penstock's has ended since `resetTerminated`.

        Raises what it died of. With a timeout in seconds: whether one has ended by then.
        """
        if timeout is not None:
            check_timeout(timeout, zero_is_fine=True)
        with self._changed:
            self._changed.wait_for(lambda: self._has_terminated, timeout)
            if self._last_exception is not None:
                raise self._last_exception
            return None if timeout is None else self._has_terminated

    def resetTerminated(self) -> None:
        """Forget the queries that have ended."""
        super().resetTerminated()
        with self._changed:
            self._has_terminated = False
            self._last_exception = None

    def start(
        self,
        execution: StreamExecution,
        options: Mapping[str, str] | None = None,
        query: StreamingQuery | None = None,
    ) -> StreamingQuery:
        """Start a query unless its name or its id is taken.

        A query of the same id is stopped first where `stopActiveRunOnRestart` says so. `options`
        are those of its writer, to be shown. `query` is the handle on it, if it has one already.
        """
        query = query or StreamingQuery(execution)
        identity = execution.identity
        self._refuse_taken_name(identity.name)
        self._make_way_for(identity.id)
        self._register(query, identity.id)
        try:
            self.start_run(execution, options)
        except BaseException:
            self._unregister(query)
            raise
        return query

    def start_run(
        self, execution: StreamExecution, options: Mapping[str, str] | None = None
    ) -> None:
        """Start a run of a query that is registered: its first, or the next after a failure."""
        OBSERVATORY.admit(execution, options)
        try:
            execution.start()
        except BaseException:
            OBSERVATORY.retire(execution)
            raise

    @classmethod
    def running(cls) -> list[StreamingQuery]:
        """The queries of all sessions."""
        with cls._running_lock:
            return list(cls._running.values())

    def notify_termination(self, execution: StreamExecution) -> None:
        """Called by a run's thread when the run is over."""
        OBSERVATORY.retire(execution)
        with self._changed:
            query = self._queries.get(execution.identity.id)
        if query is None:
            return
        if query.goes_on_after(execution):
            OBSERVATORY.say_restarting(query.id, query.status["message"])
        else:
            self.end(query)

    def end(self, query: StreamingQuery) -> None:
        """Forget a query that is over, and tell those who wait for any to end."""
        self._unregister(query)
        OBSERVATORY.say_restarting(query.id, None)
        exception = query.exception()
        with self._changed:
            if not self._has_terminated or exception is not None:
                self._last_exception = exception
            self._has_terminated = True
            self._changed.notify_all()

    def _register(self, query: StreamingQuery, query_id: str) -> None:
        """Take the name and the id, if nobody else has taken either meanwhile."""
        with self._changed, self._running_lock:
            self._refuse_taken_name(query.name)
            if query_id in self._running:
                raise ExecutionError(
                    f"Another instance of the query [id = {query_id}] was just started by a "
                    "concurrent session."
                )
            self._running[query_id] = query
            self._queries[query_id] = query

    def _running_here(self) -> list[StreamingQuery]:
        with self._changed:
            return list(self._queries.values())

    def _unregister(self, query: StreamingQuery) -> None:
        with self._running_lock:
            if self._running.get(query.id) is query:
                del self._running[query.id]
        with self._changed:
            if self._queries.get(query.id) is query:
                del self._queries[query.id]

    def _refuse_taken_name(self, name: str | None) -> None:
        if name is not None and any(query.name == name for query in self._running_here()):
            raise NameTakenError(
                f"Cannot start query with name {name} as a query with that name is already "
                "active in this SparkSession"
            )

    def _make_way_for(self, query_id: str) -> None:
        with self._running_lock:
            active = self._running.get(query_id)
        if active is not None and conf_flag(self._spark, _STOP_ACTIVE_RUN):
            _logger.warning(
                "Stopping existing streaming query [id=%s, runId=%s], as a new run is being "
                "started.",
                query_id,
                active.runId,
            )
            active.stop()
        elif is_run_by_spark(self._spark, query_id):
            raise ExecutionError(
                f"Cannot start query with id {query_id} as another query with same id is run by "
                "Spark's own engine in this application. Stop it, or use another checkpoint."
            )
        elif active is not None:
            raise ExecutionError(
                f"Cannot start query with id {query_id} as another query with same id is already "
                "active. Perhaps you are attempting to restart a query from checkpoint that is "
                "already active. You may stop the old query by setting the SQL configuration: "
                f'spark.conf.set("{_STOP_ACTIVE_RUN}", true) and retry.'
            )


_managers: dict[str, StreamingQueryManager] = {}
_managers_lock = threading.Lock()


def streams(spark: SparkSession) -> StreamingQueryManager:
    """The manager of a session's queries: one for each session, like `spark.streams`."""
    key = session_key(spark)
    with _managers_lock:
        if key not in _managers:
            _managers[key] = StreamingQueryManager(spark)
        return _managers[key]


def running_queries() -> list[StreamingQuery]:
    """Every query that Penstock runs in this process, whatever its session."""
    return StreamingQueryManager.running()


def stop_run_at_boundary(run_id: str) -> bool:
    """Let the run of a query stop when its batch is committed. False if no such run goes on.

    Does not wait for it.
    """
    query = next((query for query in running_queries() if query.runId == run_id), None)
    if query is not None:
        query.stop_at_boundary()
    return query is not None
