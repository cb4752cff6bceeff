"""Whether every state store of a batch was committed, checked where user code may prevent it.

A function that foreachBatch calls may leave part of a batch uncomputed, by `show()` say. State
that was not computed is not committed, and the next batch would find it missing. So Spark keeps
count of the commits, and so does Penstock, through Spark's own coordinator.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.engine.seam import QueryIdentity
from penstock.spark.failures import answered
from penstock.spark.plan_description import PlanDescription
from penstock.spark.session import SparkStreamSession
from penstock.spark.sinks import SparkSink

_logger = logging.getLogger(__name__)

_VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"


class StateCommits:
    """Counts the commits of one query's state stores. Made once per query."""

    def __init__(
        self,
        session: SparkStreamSession,
        identity: QueryIdentity,
        description: PlanDescription,
        sink: SparkSink,
    ) -> None:
        self._jvm = session.jvm
        self._tracked: int | None = None
        self.enabled = (
            sink.is_batch_function
            and bool(description.stateful_kinds)
            and not description.computes_one_partition
            and session.get_conf(_VALIDATION) == "true"
        )
        if self.enabled:
            self._coordinator = session.spark._jsparkSession.streams().stateStoreCoordinator()
            self._run_id = self._jvm.uuid(identity.run_id)

    def expect(self, batch_id: int, plan: Any) -> None:
        """Begin to count, before the batch runs. Failing to is no reason to fail the query.

        `plan` is the physical plan of the batch.
        """
        if not self.enabled:
            return
        try:
            stores = self._jvm.java.figures.stateStores(plan)
            if stores.isEmpty():
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
        """Raise Spark's error if a store of the batch was not committed. Once per batch."""
        if self._tracked == batch_id:
            self._tracked = None
            with answered():
                self._coordinator.validateStateStoreCommitForBatch(self._run_id, batch_id)
