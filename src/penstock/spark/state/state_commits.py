"""Checks that every state store of a foreachBatch query was committed.

A foreachBatch function may leave partitions of a batch uncomputed, for example with `show()`. Their
state is not committed, and the next batch would fail to load it. Like Spark, Penstock tracks the
commits through Spark's StateStoreCoordinator.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.engine.seam import QueryIdentity
from penstock.spark.jvm.failures import answered
from penstock.spark.plan.plan_description import PlanDescription
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.batch_sinks import SparkSink

_logger = logging.getLogger(__name__)

_LAG = "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag"
_VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"


class StateCommits:
    """Tracks the commits of one query's state stores. Created once per query."""

    def __init__(
        self,
        session: SparkStreamSession,
        identity: QueryIdentity,
        description: PlanDescription,
        sink: SparkSink,
        *,
        is_terminating: bool,
    ) -> None:
        self._jvm = session.jvm
        self._session = session
        self._is_terminating = is_terminating
        self._tracked: int | None = None
        has_state = bool(description.stateful_kinds)
        self._reports_lag = has_state and session.is_on(_LAG)
        self.applicable = (
            has_state and sink.is_batch_function and not description.computes_one_partition
        )
        if self.applicable or self._reports_lag:
            self._coordinator = session.state_coordinator()
            self._run_id = self._jvm.uuid(identity.run_id)

    def expect(self, batch_id: int, execution: Any) -> None:
        """Start tracking, before the batch runs, if the user's session enables it now.

        An error here is logged and not raised.
        """
        if not self.applicable:
            return
        try:
            if not self._session.is_on_for_user(_VALIDATION):
                return
            stores = self._jvm.java.figures.stateStores(execution)
            if stores is None:
                return
            self._coordinator.startStateStoreCommitTrackingForBatch(self._run_id, batch_id, stores)
            self._tracked = batch_id
        except Exception:
            _logger.warning(
                "Error during StateStore commit tracking setup for batch %s",
                batch_id,
                exc_info=True,
            )

    def validate(self, batch_id: int) -> None:
        """Raise Spark's error if a store of the batch was not committed. Call once per batch."""
        if self._tracked == batch_id:
            self._tracked = None
            with answered():
                self._coordinator.validateStateStoreCommitForBatch(self._run_id, batch_id)

    def report_lag(self, batch_id: int) -> None:
        """Have Spark's coordinator log the stores whose snapshot uploads lag behind."""
        if self._reports_lag:
            version = batch_id + 1
            self._coordinator.logLaggingStateStores(self._run_id, version, self._is_terminating)
