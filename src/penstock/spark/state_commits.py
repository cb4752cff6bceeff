"""Whether every state store of a batch was committed, checked where user code may prevent it.

A function that foreachBatch calls may leave part of a batch uncomputed, by `show()` say. State
that was not computed is not committed, and the next batch would find it missing. So Spark keeps
count of the commits, and so does Penstock, through Spark's own coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from penstock.engine.seam import QueryIdentity
from penstock.spark.failures import answered
from penstock.spark.handles import Handles
from penstock.spark.session import SparkStreamSession

_logger = logging.getLogger(__name__)


class StateCommits:
    """Counts the commits of one query's state stores. Made once per query."""

    def __init__(
        self,
        session: SparkStreamSession,
        identity: QueryIdentity,
        analyzed: Any,
        sink: Any,
        *,
        is_terminating: bool,
    ) -> None:
        self._jvm = session.jvm
        self._coordinator = session.spark._jsparkSession.streams().stateStoreCoordinator()
        self._conf = session.spark._jsparkSession.sessionState().conf()
        self._run_id = self._jvm.uuid(identity.run_id)
        self._is_terminating = is_terminating
        self._reports_lag = bool(self._conf.stateStoreCoordinatorReportSnapshotUploadLag())
        self.applicable = self._jvm.is_instance(
            sink, "ForeachBatchSink"
        ) and not _computes_one_partition(session, analyzed)
        self._tracked: int | None = None

    def expect(self, batch_id: int, writers: Sequence[Any]) -> None:
        """Begin to count, before the batch runs, if the user's session wants it now.

        Failing to is no reason to fail the query.
        """
        if not self.applicable or not writers:
            return
        try:
            if not self._conf.stateStoreCommitValidationEnabled():
                return
            stores = self._stores(writers)
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

    def report_lag(self, batch_id: int) -> None:
        """Let Spark's coordinator log the stores that are behind with their snapshots."""
        if self._reports_lag:
            version = batch_id + 1
            self._coordinator.logLaggingStateStores(self._run_id, version, self._is_terminating)

    def _stores(self, writers: Sequence[Any]) -> Any:
        """Operator id -> (name of its store -> number of partitions), as a Scala Map.

        Its keys have to be of Java's Long, which a small number from Python would not become.
        """
        jvm = self._jvm
        ids, names = [], []
        for writer in writers:
            info = writer.getStateInfo()
            count = info.numPartitions()
            ids.append(info.operatorId())
            stores = jvm.to_list(writer.stateStoreNames())
            names.append(jvm.python_utils.toScalaMap(dict.fromkeys(stores, count)))
        long_array = jvm.array(jvm.cls("long"), ids)
        boxed = jvm.cls("java.util.stream.LongStream").of(long_array).boxed().toList()
        keys = jvm.python_utils.toSeq(boxed)
        is_pair = jvm.module("scala.$less$colon$less").refl()
        return keys.zip(jvm.seq(names)).toMap(is_pair)


def _computes_one_partition(session: SparkStreamSession, analyzed: Any) -> bool:
    """Whether a plan has an aggregation without keys or a limit, which leave partitions out."""
    jvm = session.jvm
    nodes = jvm.to_list(analyzed.collect(Handles.of(jvm).collector("java.lang.Object")))
    kinds = [(node.getClass().getSimpleName(), node) for node in nodes]
    return any(
        kind == "GlobalLimit" or (kind == "Aggregate" and node.groupingExpressions().isEmpty())
        for kind, node in kinds
    )
