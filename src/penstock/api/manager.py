"""The queries of a session, with PySpark's names."""

from __future__ import annotations

import logging
import threading
import uuid

from pyspark.sql import SparkSession

from penstock.api.errors import StreamingQueryException
from penstock.api.query import StreamingQuery
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import ExecutionError
from penstock.spark.session_facts import conf_flag, is_run_by_spark, session_key

_logger = logging.getLogger(__name__)

_STOP_ACTIVE_RUN = "spark.sql.streaming.stopActiveRunOnRestart"


class StreamingQueryManager:
    """Knows the queries that Penstock runs in one session."""

    # Ids are unique in the whole process: two sessions may share a checkpoint, too.
    _running: dict[str, StreamExecution] = {}  # noqa: RUF012  # shared on purpose
    _running_lock = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}
        self._changed = threading.Condition()
        self._has_terminated = False
        self._last_exception: StreamingQueryException | None = None

    @property
    def active(self) -> list[StreamingQuery]:
        """The queries that run now."""
        with self._changed:
            return list(self._queries.values())

    def get(self, id: str) -> StreamingQuery | None:
        """The running query of that id."""
        with self._changed:
            return self._queries.get(str(uuid.UUID(id)))

    def awaitAnyTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until any query has ended since `resetTerminated`; raises what it died of."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_terminated, timeout)
            if self._last_exception is not None:
                raise self._last_exception
            return None if timeout is None else self._has_terminated

    def resetTerminated(self) -> None:
        """Forget the queries that have ended."""
        with self._changed:
            self._has_terminated = False
            self._last_exception = None

    def start(self, execution: StreamExecution) -> StreamingQuery:
        """Start a query unless its name or its id is taken.

        A query of the same id is stopped first where `stopActiveRunOnRestart` says so.
        """
        query = StreamingQuery(execution)
        identity = execution.identity
        self._refuse_taken_name(identity.name)
        self._make_way_for(identity.id)
        with self._running_lock:
            if identity.id in self._running:
                raise ExecutionError(
                    f"Another instance of the query [id = {identity.id}] was just started by a "
                    "concurrent session."
                )
            self._running[identity.id] = execution
        with self._changed:
            self._queries[identity.id] = query
        try:
            execution.start()
        except BaseException:
            self._unregister(execution)
            raise
        return query

    def notify_termination(self, execution: StreamExecution) -> None:
        """Called by a query's thread when the query is over."""
        query = self._unregister(execution)
        with self._changed:
            exception = query.exception() if query else None
            if not self._has_terminated or exception is not None:
                self._last_exception = exception
            self._has_terminated = True
            self._changed.notify_all()

    def _unregister(self, execution: StreamExecution) -> StreamingQuery | None:
        query_id = execution.identity.id
        with self._running_lock:
            if self._running.get(query_id) is execution:
                del self._running[query_id]
        with self._changed:
            return self._queries.pop(query_id, None)

    def _refuse_taken_name(self, name: str | None) -> None:
        if name is not None and any(query.name == name for query in self.active):
            raise ExecutionError(
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
                active.identity.run_id,
            )
            active.stop()
        elif active is not None or is_run_by_spark(self._spark, query_id):
            raise ExecutionError(
                f"Cannot start query with id {query_id} as another query with same id is already "
                "active. Perhaps you are attempting to restart a query from checkpoint that is "
                "already active. You may stop the old query by setting the SQL configuration: "
                f'spark.conf.set("{_STOP_ACTIVE_RUN}", true) and retry.'
            )


_managers: dict[str, StreamingQueryManager] = {}
_managers_lock = threading.Lock()


def manager_of(spark: SparkSession) -> StreamingQueryManager:
    """The manager of a session: one for each, however often it is asked for."""
    key = session_key(spark)
    with _managers_lock:
        if key not in _managers:
            _managers[key] = StreamingQueryManager(spark)
        return _managers[key]
