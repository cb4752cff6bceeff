"""The query as Spark plans it: its leaves bound once, each batch planned and run from there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint import CheckpointDirectory, CommitMetadata, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.progress import ExecutionStats
from penstock.engine.seam import BatchExecution, BatchRequest, QueryIdentity, QueryPlan
from penstock.engine.watermark import EventTimeStats
from penstock.spark.batch_time import BatchTime
from penstock.spark.handles import Handles
from penstock.spark.leaves import bind_leaves
from penstock.spark.session import SparkStreamSession
from penstock.spark.sinks import SparkSink
from penstock.spark.statistics import PlanStatistics

_logger = logging.getLogger(__name__)

_AQE = "spark.sql.adaptive.enabled"
_STATEFUL_OPERATORS = {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
    "GlobalLimit",
}


@dataclass(frozen=True)
class QuerySpec:
    """A query as its writer describes it, checked and analyzed by Spark."""

    analyzed: Any
    sink: SparkSink
    output_mode: Any
    options: Any
    is_terminating: bool


class SparkQueryPlan(QueryPlan):
    """A query bound to its sources. To be made on the query's own thread."""

    def __init__(
        self,
        session: SparkStreamSession,
        identity: QueryIdentity,
        checkpoint: CheckpointDirectory,
        spec: QuerySpec,
    ) -> None:
        jvm = session.jvm
        self._jvm = jvm
        self._session = session
        self._spec = spec
        self._identity = identity
        self._leaves = bind_leaves(session, spec.analyzed, checkpoint.root)
        self._sources = [leaf.source for leaf in self._leaves]
        self._streams = [
            (source.jstream, source)
            for source in dict.fromkeys(self._sources)
            if hasattr(source, "jstream")
        ]
        self._write = spec.sink.write_node(
            spec.analyzed, identity.id, spec.options, spec.output_mode
        )
        self._replacements = jvm.view.java.util.IdentityHashMap()
        self._replace = Handles(jvm).substitution(self._replacements)
        self._batch_time = BatchTime(jvm, spec.analyzed)
        self._statistics = PlanStatistics(jvm)
        self._watermark_operators = _watermark_operators(session, spec.analyzed)
        self._query_id, self._run_id = jvm.uuid(identity.id), jvm.uuid(identity.run_id)
        self._state_path = checkpoint.state_path
        self._propagator = jvm.module("WatermarkPropagator").apply(
            session.jsession.sessionState().conf()
        )
        mutable_map = jvm.cls("scala.collection.mutable.HashMap")
        self._state_checkpoint_ids = mutable_map()
        self._state_schemas = mutable_map()
        self._mode = jvm.module("CommandExecutionMode").ALL()
        if _is_stateful(session, spec.analyzed):
            _logger.warning("Disabling AQE since AQE is not supported in stateful workloads.")
            session.set_conf(_AQE, "false")

    @property
    def sources(self) -> Sequence[DataStream]:
        return self._sources

    @property
    def sink_description(self) -> str:
        return self._spec.sink.description

    def sink_metrics(self) -> Mapping[str, str]:
        return self._spec.sink.metrics()

    @property
    def watermark_operators(self) -> Sequence[str]:
        return self._watermark_operators

    def forget_before(self, batch_id: int) -> None:
        # The propagator needs the batch before the last one too.
        self._propagator.purge(batch_id - 1)

    def prepare(self, request: BatchRequest) -> BatchExecution:
        for leaf in self._leaves:
            self._replacements.put(leaf.node, leaf.plan_for(request.data.get(leaf.source)))
        plan = self._write.transform(self._replace)
        plan = self._batch_time.fix(plan, request.metadata.batch_timestamp_ms)
        execution = self._incremental_execution(plan.withNewBatchId(request.batch_id), request)
        execution.executedPlan()
        return SparkBatchExecution(
            self._session, self._spec.sink, self._statistics, self._streams, execution, request
        )

    def _incremental_execution(self, plan: Any, request: BatchRequest) -> Any:
        previous = request.previous_metadata
        return self._jvm.cls("IncrementalExecution")(
            self._session.jsession,
            plan,
            self._spec.output_mode,
            self._state_path,
            self._query_id,
            self._run_id,
            request.batch_id,
            self._jvm.option(None if previous is None else self._metadata(previous)),
            self._metadata(request.metadata),
            self._propagator,
            request.is_first_in_run,
            self._state_checkpoint_ids,
            self._state_schemas,
            self._mode,
            self._spec.is_terminating,
            False,
        )

    def _metadata(self, metadata: OffsetSeqMetadata) -> Any:
        return self._jvm.module("OffsetSeqMetadata").apply(metadata.json)

    def __str__(self) -> str:
        return str(self._spec.analyzed.toString())


class SparkBatchExecution(BatchExecution):
    """A batch that Spark has planned."""

    def __init__(
        self,
        session: SparkStreamSession,
        sink: SparkSink,
        statistics: PlanStatistics,
        streams: Sequence[tuple[Any, DataStream]],
        execution: Any,
        request: BatchRequest,
    ) -> None:
        self._session = session
        self._sink = sink
        self._statistics = statistics
        self._streams = streams
        self._execution = execution
        self._request = request
        self._event_time: list[EventTimeStats] | None = None

    def run(self) -> int | None:
        return self._sink.add_batch(self._request.batch_id, self._execution)

    def event_time_stats(self) -> Sequence[EventTimeStats]:
        if self._event_time is None:
            self._event_time = self._statistics.event_time_stats(self._execution.executedPlan())
        return self._event_time

    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        return CommitMetadata(next_watermark_ms)

    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        jvm = self._session.jvm
        recorded = jvm.module("OffsetSeqMetadata").apply(metadata.json)
        return bool(self._execution.shouldRunAnotherBatch(recorded))

    def explain(self, *, extended: bool) -> str:
        jvm = self._session.jvm
        command = jvm.cls("StreamingExplainCommand")(self._execution, extended)
        rows = (
            self._session.jsession.sessionState()
            .executePlan(command, jvm.module("CommandExecutionMode").ALL())
            .executedPlan()
        )
        return "\n".join(row.getString(0) for row in rows.executeCollect())

    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        return self._statistics.of(
            self._execution, self._streams, self.event_time_stats(), has_new_data=has_new_data
        )


def _watermark_operators(session: SparkStreamSession, analyzed: Any) -> list[str]:
    """The ids of the operators of a logical plan that define a watermark."""
    jvm = session.jvm
    nodes = analyzed.collect(Handles(jvm).collector("EventTimeWatermark"))
    return [str(node.nodeId().toString()) for node in jvm.to_list(nodes)]


def _is_stateful(session: SparkStreamSession, analyzed: Any) -> bool:
    """Whether a plan keeps state between batches, by the operators Spark goes by here."""
    jvm = session.jvm
    for node in jvm.to_list(analyzed.collect(Handles(jvm).collector("java.lang.Object"))):
        kind = node.getClass().getSimpleName()
        if kind in _STATEFUL_OPERATORS and node.isStreaming():
            return True
        if kind == "Join" and node.left().isStreaming() and node.right().isStreaming():
            return True
    return False
