"""Every class of Spark that is not its public API and that Penstock leans on, in one table.

Spark may move or change any of these in a minor release. Nothing else in this room spells out a
class name of Spark's inside: it asks by the name on the left. `penstock doctor` looks
each of them up; a session in which one is missing is refused before a query starts.
"""

from __future__ import annotations

from dataclasses import dataclass

SUPPORTED_VERSIONS = ("4.3",)
"""The minor versions of Spark that this release was tried on."""

_SQL = "org.apache.spark.sql"
_STREAMING = f"{_SQL}.execution.streaming"


@dataclass(frozen=True)
class InternalClass:
    """A class of Spark's, what it is needed for, and the versions it was tried on here."""

    name: str
    needed_for: str
    tried_on: tuple[str, ...] = ("4.3.0",)


INTERNAL_CLASSES: dict[str, InternalClass] = {
    # Sessions and datasets
    "ClassicSession": InternalClass(f"{_SQL}.classic.SparkSession", "the active session"),
    "ClassicDataset": InternalClass(f"{_SQL}.classic.Dataset", "a batch as a Dataset"),
    "ExpressionEncoder": InternalClass(
        f"{_SQL}.catalyst.encoders.ExpressionEncoder", "rows of a batch"
    ),
    "QueryExecution": InternalClass(f"{_SQL}.execution.QueryExecution", "running a batch"),
    "SQLExecution": InternalClass(f"{_SQL}.execution.SQLExecution", "a batch as one SQL execution"),
    "CommandExecutionMode": InternalClass(
        f"{_SQL}.execution.CommandExecutionMode", "planning a batch"
    ),
    # The plan and its leaves
    "StreamingRelation": InternalClass(f"{_STREAMING}.runtime.StreamingRelation", "V1 sources"),
    "StreamingRelationV2": InternalClass(
        f"{_SQL}.catalyst.streaming.StreamingRelationV2", "V2 sources"
    ),
    "Unassigned": InternalClass(f"{_SQL}.catalyst.streaming.Unassigned", "sources without a name"),
    "StreamingDataSourceV2Relation": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamingDataSourceV2Relation", "V2 sources"
    ),
    "StreamingDataSourceV2ScanRelation": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamingDataSourceV2ScanRelation", "V2 sources"
    ),
    "StreamSourceAwareLogicalPlan": InternalClass(
        f"{_SQL}.catalyst.plans.logical.StreamSourceAwareLogicalPlan", "rows read per source"
    ),
    "StreamSourceAwareSparkPlan": InternalClass(
        f"{_SQL}.execution.StreamSourceAwareSparkPlan", "rows read per source"
    ),
    "V2Reference": InternalClass(
        f"{_SQL}.catalyst.analysis.V2Reference", "tables of transactional catalogs"
    ),
    "LogicalPlan": InternalClass(f"{_SQL}.catalyst.plans.logical.LogicalPlan", "V1 sources"),
    "FileFormat": InternalClass(f"{_SQL}.execution.datasources.FileFormat", "file sources"),
    "DataSourceUtils": InternalClass(
        f"{_SQL}.execution.datasources.DataSourceUtils", "partitioned sinks"
    ),
    "JavaUtils": InternalClass("org.apache.spark.network.util.JavaUtils", "settings"),
    "SparkPlan": InternalClass(f"{_SQL}.execution.SparkPlan", "statistics of a batch"),
    "SQLMetric": InternalClass(f"{_SQL}.execution.metric.SQLMetric", "rows read per source"),
    "LogicalRelation": InternalClass(
        f"{_SQL}.execution.datasources.LogicalRelation", "file sources"
    ),
    "LogicalRDD": InternalClass(f"{_SQL}.execution.LogicalRDD", "foreachBatch"),
    "LocalRelation": InternalClass(
        f"{_SQL}.catalyst.plans.logical.LocalRelation", "sources without new data"
    ),
    "Project": InternalClass(f"{_SQL}.catalyst.plans.logical.Project", "V1 batches"),
    "CollectMetrics": InternalClass(
        f"{_SQL}.catalyst.plans.logical.CollectMetrics", "metrics of DataFrame.observe"
    ),
    "EventTimeWatermark": InternalClass(
        f"{_SQL}.catalyst.plans.logical.EventTimeWatermark", "watermarks"
    ),
    "Deduplicate": InternalClass(
        f"{_SQL}.catalyst.plans.logical.Deduplicate", "the keys of dropDuplicates"
    ),
    "DeduplicateWithinWatermark": InternalClass(
        f"{_SQL}.catalyst.plans.logical.DeduplicateWithinWatermark", "the keys of dropDuplicates"
    ),
    "ResolveDeduplicate": InternalClass(
        f"{_SQL}.catalyst.analysis.ResolveDeduplicate", "the keys of dropDuplicates"
    ),
    "SQLConf": InternalClass(f"{_SQL}.internal.SQLConf", "the keys of dropDuplicates"),
    "NamedExpression": InternalClass(f"{_SQL}.catalyst.expressions.NamedExpression", "V1 batches"),
    "Source": InternalClass(f"{_STREAMING}.Source", "V1 sources"),
    "Offset": InternalClass(f"{_STREAMING}.Offset", "V1 sources"),
    "Alias": InternalClass(f"{_SQL}.catalyst.expressions.Alias", "V1 batches"),
    "FileSourceMetadataAttribute": InternalClass(
        f"{_SQL}.catalyst.expressions.FileSourceMetadataAttribute", "the _metadata column"
    ),
    "CurrentBatchTimestamp": InternalClass(
        f"{_SQL}.catalyst.expressions.CurrentBatchTimestamp", "current_timestamp in a batch"
    ),
    "CurrentTimestamp": InternalClass(
        f"{_SQL}.catalyst.expressions.CurrentTimestamp", "current_timestamp in a batch"
    ),
    "LocalTimestamp": InternalClass(
        f"{_SQL}.catalyst.expressions.LocalTimestamp", "localtimestamp in a batch"
    ),
    "CurrentTimestampNanos": InternalClass(
        f"{_SQL}.catalyst.expressions.CurrentTimestampNanos", "current_timestamp in a batch"
    ),
    "LocalTimestampNanos": InternalClass(
        f"{_SQL}.catalyst.expressions.LocalTimestampNanos", "localtimestamp in a batch"
    ),
    "CurrentDate": InternalClass(
        f"{_SQL}.catalyst.expressions.CurrentDate", "current_date in a batch"
    ),
    "TreePattern": InternalClass(f"{_SQL}.catalyst.trees.TreePattern", "current_* functions"),
    # Sources
    "SerializedOffset": InternalClass(f"{_STREAMING}.runtime.SerializedOffset", "V1 offsets"),
    "MarkerStream": InternalClass(
        f"{_STREAMING}.sources.RatePerMicroBatchStream", "telling Python sources apart"
    ),
    "FileStreamSourceLog": InternalClass(
        f"{_STREAMING}.runtime.FileStreamSourceLog", "bisecting a batch of files"
    ),
    "FileEntry": InternalClass(
        f"{_STREAMING}.runtime.FileStreamSource$FileEntry", "bisecting a batch of files"
    ),
    "DataSource": InternalClass(f"{_SQL}.execution.datasources.DataSource", "V1 sources, sinks"),
    # Sinks
    "V1Sink": InternalClass(f"{_STREAMING}.Sink", "V1 sinks"),
    "MemorySink": InternalClass(f"{_STREAMING}.sources.MemorySink", "the memory sink"),
    "MemoryPlan": InternalClass(f"{_STREAMING}.sources.MemoryPlan", "the memory sink"),
    "ForeachWriterTable": InternalClass(f"{_STREAMING}.sources.ForeachWriterTable", "foreach"),
    "ForeachBatchSink": InternalClass(f"{_STREAMING}.sources.ForeachBatchSink", "foreachBatch"),
    "FileStreamSink": InternalClass(
        f"{_STREAMING}.sinks.FileStreamSink", "the batches that a file sink knows"
    ),
    "PythonForeachWriter": InternalClass(
        f"{_SQL}.execution.python.streaming.PythonForeachWriter", "foreach"
    ),
    "FileDataSourceV2": InternalClass(
        f"{_SQL}.execution.datasources.v2.FileDataSourceV2", "choosing a sink's API"
    ),
    "PythonDataSourceV2": InternalClass(
        f"{_SQL}.execution.datasources.v2.python.PythonDataSourceV2", "Python data sources"
    ),
    "DataSourceV2Utils": InternalClass(
        f"{_SQL}.execution.datasources.v2.DataSourceV2Utils", "V2 sinks"
    ),
    "DataSourceV2Relation": InternalClass(
        f"{_SQL}.execution.datasources.v2.DataSourceV2Relation", "V2 sinks"
    ),
    "WriteToMicroBatchDataSource": InternalClass(
        f"{_STREAMING}.sources.WriteToMicroBatchDataSource", "V2 sinks"
    ),
    "WriteToMicroBatchDataSourceV1": InternalClass(
        f"{_STREAMING}.sources.WriteToMicroBatchDataSourceV1", "V1 sinks"
    ),
    "WriteToDataSourceV2Exec": InternalClass(
        f"{_SQL}.execution.datasources.v2.WriteToDataSourceV2Exec", "rows a V2 sink wrote"
    ),
    "StreamWriterCommitProgress": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamWriterCommitProgress", "rows a V2 sink wrote"
    ),
    "WriteToStreamStatement": InternalClass(
        f"{_SQL}.catalyst.streaming.WriteToStreamStatement", "Spark's checks of a query"
    ),
    "QueryCompilationErrors": InternalClass(
        f"{_SQL}.errors.QueryCompilationErrors", "Spark's own messages for mistakes in a query"
    ),
    "DataTypeUtils": InternalClass(f"{_SQL}.catalyst.types.DataTypeUtils", "the memory sink"),
    # Running a batch
    "IncrementalExecution": InternalClass(
        f"{_STREAMING}.runtime.IncrementalExecution", "planning a batch"
    ),
    "OffsetSeqMetadata": InternalClass(
        f"{_STREAMING}.checkpointing.OffsetSeqMetadata", "settings frozen in the offset log"
    ),
    "WatermarkPropagator": InternalClass(
        f"{_STREAMING}.runtime.WatermarkPropagator", "several stateful operators"
    ),
    "PlanTraverseHelper": InternalClass(
        f"{_STREAMING}.StreamingQueryPlanTraverseHelper", "statistics of a batch"
    ),
    "StateStoreWriter": InternalClass(
        f"{_STREAMING}.operators.stateful.StateStoreWriter", "state figures"
    ),
    "StateStoreErrors": InternalClass(
        f"{_STREAMING}.state.StateStoreErrors", "state that is not the last commit's"
    ),
    "OperatorStateMetadataFiles": InternalClass(
        f"{_STREAMING}.state.OperatorStateMetadataV2FileManager", "old state metadata removed"
    ),
    "EventTimeWatermarkExec": InternalClass(
        f"{_STREAMING}.operators.stateful.EventTimeWatermarkExec", "watermarks"
    ),
    "EventTimeStats": InternalClass(
        f"{_STREAMING}.operators.stateful.EventTimeStats", "watermarks"
    ),
    "EventTimeStatsAccum": InternalClass(
        f"{_STREAMING}.operators.stateful.EventTimeStatsAccum", "watermarks"
    ),
    "StateOperatorProgress": InternalClass(
        f"{_SQL}.streaming.StateOperatorProgress", "state figures"
    ),
    "StreamingExplainCommand": InternalClass(
        f"{_SQL}.execution.command.StreamingExplainCommand", "explain"
    ),
    # Checkpoint files that are not local
    "CheckpointFileManager": InternalClass(
        f"{_STREAMING}.checkpointing.CheckpointFileManager", "checkpoints that are not local"
    ),
    "FileSystemBasedCheckpointFileManager": InternalClass(
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
        "the state files of local checkpoints",
    ),
    # Events
    "QueryProgress": InternalClass(f"{_SQL}.streaming.StreamingQueryProgress", "listeners"),
    "QueryStartedEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryStartedEvent", "listeners"
    ),
    "QueryProgressEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryProgressEvent", "listeners"
    ),
    "QueryIdleEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryIdleEvent", "listeners"
    ),
    "QueryTerminatedEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryTerminatedEvent", "listeners"
    ),
}
