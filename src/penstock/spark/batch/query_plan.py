"""The engine's QueryPlan on Spark: binds the leaves once, then plans and runs each batch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from penstock.checkpoint import CheckpointDirectory, CommitMetadata, OffsetSeqMetadata
from penstock.connectors import SinkBatch
from penstock.engine.batch_parts import Pieces, SourcePart
from penstock.engine.data_stream import DataStream
from penstock.engine.named_sinks import NamedSink, SinkWriter
from penstock.engine.progress import ExecutionStats
from penstock.engine.seam import (
    BatchExecution,
    BatchRequest,
    PutAside,
    QueryIdentity,
    QueryPlan,
    Trials,
)
from penstock.engine.stream_progress import positions_of
from penstock.engine.watermark import EventTimeStats, WatermarkOperator
from penstock.spark.batch.leaves import Leaf, bind_leaves
from penstock.spark.batch.put_aside import PartCopier
from penstock.spark.batch.trials import SparkTrials, trial_state
from penstock.spark.plan.dedup_keys import DEDUPLICATION, with_key_order
from penstock.spark.plan.plan_advice import warn_of_default_partitions
from penstock.spark.plan.plan_description import SET_DIFFERENCE, describe
from penstock.spark.plan.planning import BatchPlanner
from penstock.spark.plan.statistics import PlanStatistics
from penstock.spark.plan.watermarks import describe_watermarks
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sinks.batch_sinks import OrdinaryFrames, PythonBatchSink, SparkSink
from penstock.spark.sinks.many_sinks import ManySinks
from penstock.spark.sinks.sink_log import latest_batch_of
from penstock.spark.sinks.sink_names import SINK_EVOLUTION, SinkNames
from penstock.spark.state.state_commits import StateCommits
from penstock.spark.state.state_ids import StateIds
from penstock.spark.state.state_metadata import purge_state_metadata

_logger = logging.getLogger(__name__)

_AQE = "spark.sql.adaptive.enabled"
_OFFSET_LOG_VERSION = "spark.sql.streaming.offsetLog.formatVersion"
_NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_RECORD_THEIR_PATHS = {
    "TransformWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
}
"""Operators that write the path of their state schema into the checkpoint."""


@dataclass(frozen=True)
class QuerySpec:
    """A query and its sink, checked and analyzed by Spark."""

    analyzed: Any
    sink: SparkSink
    output_mode: Any
    options: Any
    is_terminating: bool
    sink_name: str | None = None
    skips_known_batches: bool = False


class SparkQueryPlan(QueryPlan):
    """A query bound to its sources. Must be created on the query's thread."""

    def __init__(
        self,
        session: SparkStreamSession,
        identity: QueryIdentity,
        checkpoint: CheckpointDirectory,
        spec: QuerySpec,
    ) -> None:
        jvm = session.jvm
        self._session = session
        self._spec = spec
        self._checkpoint = checkpoint
        # Read now, because it is also used when the JVM may be gone.
        self._text = str(spec.analyzed.toString())
        self._identity = identity
        analyzed = spec.analyzed
        jplan = jvm.java.start.plan(analyzed)
        description = describe(jplan)
        if not description.kinds.isdisjoint(DEDUPLICATION):
            analyzed = with_key_order(session, analyzed, checkpoint)
            jplan = jvm.java.start.plan(analyzed)
        self._leaves = bind_leaves(session, jplan, description, checkpoint.root)
        self._sources = [leaf.source for leaf in self._leaves]
        self._watermarks = describe_watermarks(description, self._sources)
        stateful = description.stateful_kinds
        self._has_state = bool(stateful)
        self._state_ids = StateIds(session)
        self._sink_names = SinkNames(session.is_on(SINK_EVOLUTION), spec.sink_name, spec.sink)
        state_path = checkpoint.state_path
        if stateful.isdisjoint(_RECORD_THEIR_PATHS):
            state_path = session.direct(state_path)
        self._analyzed, self._jplan = analyzed, jplan
        self._planner = self._make_planner(spec.sink, state_path, identity.run_id)
        self._shared = _Shared(
            query_id=identity.id,
            session=session,
            sink=spec.sink,
            statistics=PlanStatistics(
                jvm,
                jplan,
                self._sources,
                has_watermark=bool(self._watermarks),
                has_state=self._has_state,
                has_observations="CollectMetrics" in description.kinds,
            ),
            state_ids=self._state_ids,
            sink_names=self._sink_names,
            state_commits=StateCommits(
                session, identity, description, spec.sink, is_terminating=spec.is_terminating
            ),
            planner=self._planner,
        )
        if stateful - {SET_DIFFERENCE}:
            if jvm.line.adaptive_execution:
                _logger.warning("Disabling AQE since AQE is not supported in stateful workloads.")
                session.set_conf(_AQE, "false")
            warn_of_default_partitions(session, checkpoint)

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self._leaves

    @property
    def sources(self) -> Sequence[DataStream]:
        return self._sources

    @property
    def source_ids(self) -> Sequence[str] | None:
        if self._session.is_on(_NAMED_SOURCES):
            return [leaf.name or str(index) for index, leaf in enumerate(self._leaves)]
        return positions_of(self._sources) if self._wants_names() else None

    @property
    def names_new_log(self) -> bool:
        return self._wants_names() or self.refuses_log_by_position

    @property
    def refuses_log_by_position(self) -> bool:
        session = self._session
        return session.jvm.line.resolves_log_versions and session.is_on(_NAMED_SOURCES)

    def _wants_names(self) -> bool:
        """Whether the session selects the offset log format that has source names."""
        return int(self._session.find_conf(_OFFSET_LOG_VERSION) or 1) >= 2

    @property
    def sink_description(self) -> str:
        return self._spec.sink.description

    @property
    def named_sinks(self) -> Sequence[NamedSink]:
        return self._spec.sink.sinks if isinstance(self._spec.sink, ManySinks) else ()

    def latest_batch_of_sink(self) -> int | None:
        if self._spec.skips_known_batches:
            return None
        return latest_batch_of(self._spec.sink, self._session)

    def sink_metrics(self) -> Mapping[str, str]:
        return self._spec.sink.metrics()

    @property
    def watermark_operators(self) -> Sequence[str]:
        return [watermark.operator_id for watermark in self._watermarks]

    def describe_watermarks(self) -> Sequence[WatermarkOperator]:
        return self._watermarks

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        self._sink_names.resume_after_commit(commit)
        self._state_ids.resume_after_commit(commit)

    def prepare(self, request: BatchRequest) -> SparkBatchExecution:
        shape = self._set_data(request)
        execution = self._planner.execution(request, shape)
        batch = SparkBatchExecution(self._shared, execution, request)
        self._planner.learn(shape, execution)
        return batch

    def _set_data(self, request: BatchRequest) -> tuple[int, ...]:
        """Set the data of all leaves; returns the shape of the plan: the pieces of each leaf."""
        for leaf in self._leaves:
            leaf.set_data(request.data.get(leaf.source))
        data = [request.data.get(leaf.source, Pieces(())) for leaf in self._leaves]
        return tuple(len(d.data) if isinstance(d, Pieces) else 1 for d in data)

    @contextlib.contextmanager
    def trials(self) -> Iterator[Trials]:
        sink = PythonBatchSink(self._session.spark, lambda df, batch_id: None)
        with contextlib.ExitStack() as resources:
            state_path = self._checkpoint.state_path
            if self._has_state:
                state_path = resources.enter_context(trial_state(self._session, self._checkpoint))
            yield SparkTrials(
                self._session,
                self._session.direct(state_path),
                lambda path, run_id: self._make_planner(sink, path, run_id),
                self._set_data,
            )

    def copy_aside(self, aside: PutAside) -> None:
        def read_rows(part: SourcePart) -> DataFrame:
            leaf = next(leaf for leaf in self._leaves if leaf.source is part.source)
            request = replace(aside.request, data={part.source: part.read()})
            execution = self.execution_of(leaf, request)
            return OrdinaryFrames(self._session.spark, execution).of(execution)

        PartCopier(self._session, self._identity.id, aside, read_rows).copy()

    def execution_of(self, leaf: Leaf, request: BatchRequest) -> Any:
        """Spark's execution of the plan that replaces one leaf in a batch."""
        leaf.set_data(request.data.get(leaf.source))
        return self._planner.execution_of(leaf.jdata, request)

    def _make_planner(self, sink: SparkSink, state_path: str, run_id: str) -> BatchPlanner:
        session, spec, query_id = self._session, self._spec, self._identity.id
        jplanner = session.jvm.java.start.planner(
            session.jsession,
            self._jplan,
            sink.write_node(
                session.jsession, self._analyzed, query_id, spec.options, spec.output_mode
            ),
            spec.output_mode,
            state_path,
            query_id,
            run_id,
            self._state_ids.jvm_map,
            spec.is_terminating,
        )
        return BatchPlanner(jplanner)

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class _Shared:
    """What all batches of a run use."""

    query_id: str
    session: SparkStreamSession
    sink: SparkSink
    statistics: PlanStatistics
    state_ids: StateIds
    sink_names: SinkNames
    state_commits: StateCommits
    planner: BatchPlanner


class SparkBatchExecution(BatchExecution):
    """A batch that Spark has planned."""

    def __init__(self, shared: _Shared, execution: Any, request: BatchRequest) -> None:
        self._shared = shared
        self._execution = execution
        self._request = request
        self._event_time: list[EventTimeStats] | None = None

    @property
    def jvm_execution(self) -> Any:
        return self._execution

    def run(self) -> int | None:
        self._before_run()
        return self._shared.sink.add_batch(self._batch(), self._execution)

    @property
    def has_other_effects(self) -> bool:
        return self._shared.statistics.has_any

    def run_for_sinks(self, deliver: Callable[[SinkWriter], None], *, is_wanted: bool) -> int:
        assert isinstance(self._shared.sink, ManySinks)
        self._before_run()
        return self._shared.sink.share_batch(
            self._batch(), self._execution, deliver, is_wanted=is_wanted
        )

    def _batch(self) -> SinkBatch:
        planned_at = self._request.metadata.batch_timestamp_ms
        return SinkBatch(self._shared.query_id, self._request.batch_id, planned_at)

    def _before_run(self) -> None:
        if self._request.is_first_in_run:
            purge_state_metadata(self._shared.session, self._state_writers())
        if self._shared.state_commits.applicable:
            self._shared.state_commits.expect(self._request.batch_id, self._execution)

    def event_time_stats(self) -> Sequence[EventTimeStats]:
        if self._event_time is None:
            self._event_time = self._shared.statistics.event_time_stats(self._execution)
        return self._event_time

    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        ids = None
        if self._shared.state_ids.enabled:
            ids = self._shared.state_ids.take(self._execution, self._request.batch_id)
        sinks = (
            self._shared.sink_names.of_this_commit() if self._shared.sink_names.enabled else None
        )
        version = 3 if sinks is not None else 2 if ids is not None else 1
        return CommitMetadata(next_watermark_ms, ids, sinks, version)

    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        if not self._shared.statistics.has_state:
            return False
        return self._shared.planner.should_run_another_batch(self._execution, metadata)

    def explain(self, *, extended: bool) -> str:
        jvm = self._shared.session.jvm
        command = jvm.new(
            "StreamingExplainCommand", queryExecution=self._execution, extended=extended
        )
        rows = (
            self._shared.session.jsession.sessionState()
            .executePlan(command, jvm.module("CommandExecutionMode").ALL())
            .executedPlan()
        )
        return "\n".join(row.getString(0) for row in rows.executeCollect())

    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        self._shared.state_commits.validate(self._request.batch_id)
        if self._shared.statistics.has_state:
            self._shared.state_commits.report_lag(self._request.batch_id)
        return self._shared.statistics.of(
            self._execution,
            self.event_time_stats(),
            has_new_data=has_new_data,
        )

    def _state_writers(self) -> list[Any]:
        return self._shared.statistics.state_store_writers(self._execution)
