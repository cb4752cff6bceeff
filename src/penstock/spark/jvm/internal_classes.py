"""Every non-public class of Spark that Penstock uses, as it is in Spark 4.3.

Spark may move or change any of these in a minor release; `lines` lists what differs in the other
lines. No other module contains the full name of an internal class: Python and the Java sources use
the key on the left, and construct by keyword.
"""

from __future__ import annotations

from penstock.spark.jvm.internals import InternalClass

_SQL = "org.apache.spark.sql"
_CATALYST = f"{_SQL}.catalyst"
_STREAMING = f"{_SQL}.execution.streaming"

INTERNAL_CLASSES: dict[str, InternalClass] = {
    # Sessions and datasets
    "ClassicSession": InternalClass(
        f"{_SQL}.classic.SparkSession",
        "the active session",
        methods=(
            "setActiveSession(session) cloneSession() sessionState() streams() conf() "
            "sessionUUID() internalCreateDataFrame(catalystRows, schema, isStreaming)"
        ),
    ),
    "ClassicDataset": InternalClass(
        f"{_SQL}.classic.Dataset",
        "a batch as a Dataset",
        methods="ofRows(sparkSession, logicalPlan) exprEnc() logicalPlan() queryExecution()",
    ),
    "ExpressionEncoder": InternalClass(
        f"{_CATALYST}.encoders.ExpressionEncoder", "rows of a batch"
    ),
    "QueryExecution": InternalClass(
        f"{_SQL}.execution.QueryExecution",
        "running a batch",
        methods="analyzed() executedPlan() observedMetrics() toRdd()",
    ),
    "SQLExecution": InternalClass(
        f"{_SQL}.execution.SQLExecution",
        "a batch as one SQL execution",
        methods="withNewExecutionId(queryExecution, name, body)",
    ),
    "JobGroups": InternalClass(
        "org.apache.spark.SparkContext",
        "stopping a query",
        methods="cancelJobGroup(groupId, reason)",
    ),
    "CommandExecutionMode": InternalClass(
        f"{_SQL}.execution.CommandExecutionMode",
        "planning a batch",
        methods="ALL()",
    ),
    # The plan and its leaves
    "StreamingRelation": InternalClass(
        f"{_STREAMING}.runtime.StreamingRelation",
        "V1 sources",
        new="dataSource, sourceName, output, sourceIdentifyingName",
        methods="dataSource()",
    ),
    "StreamingRelationV2": InternalClass(
        f"{_CATALYST}.streaming.StreamingRelationV2", "V2 sources"
    ),
    "Unassigned": InternalClass(f"{_CATALYST}.streaming.Unassigned", "sources without a name"),
    "StreamingDataSourceV2Relation": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamingDataSourceV2Relation",
        "V2 sources",
        new=(
            "table, output, catalog, identifier, options, metadataPath, realTimeModeDuration, "
            "sourceIdentifyingName"
        ),
    ),
    "StreamingDataSourceV2ScanRelation": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamingDataSourceV2ScanRelation",
        "V2 sources",
        new="relation, scan, output, stream, startOffset, endOffset",
    ),
    "StreamSourceAwareLogicalPlan": InternalClass(
        f"{_CATALYST}.plans.logical.StreamSourceAwareLogicalPlan", "rows read per source"
    ),
    "StreamSourceAwareSparkPlan": InternalClass(
        f"{_SQL}.execution.StreamSourceAwareSparkPlan", "rows read per source"
    ),
    "V2Reference": InternalClass(
        f"{_CATALYST}.analysis.V2Reference",
        "tables of transactional catalogs",
        methods="createForWriteTarget(relation)",
    ),
    "LogicalPlan": InternalClass(
        f"{_CATALYST}.plans.logical.LogicalPlan",
        "V1 sources",
        methods=(
            "children() withNewChildren(newChildren) output() outputSet() metadataOutput() schema()"
        ),
    ),
    "FileFormat": InternalClass(f"{_SQL}.execution.datasources.FileFormat", "file sources"),
    "DataSourceUtils": InternalClass(
        f"{_SQL}.execution.datasources.DataSourceUtils",
        "partitioned sinks",
        methods="encodePartitioningColumns(columns)",
    ),
    "JDBCOptions": InternalClass(f"{_SQL}.execution.datasources.jdbc.JDBCOptions", "the JDBC sink"),
    "JavaUtils": InternalClass(
        "org.apache.spark.network.util.JavaUtils",
        "settings",
        methods="timeStringAsMs(str)",
    ),
    "SparkPlan": InternalClass(f"{_SQL}.execution.SparkPlan", "statistics of a batch"),
    "LogicalRelation": InternalClass(
        f"{_SQL}.execution.datasources.LogicalRelation",
        "file sources",
        methods=(
            "withMetadataColumns() relation() catalogTable() stream() copy(relation, output, "
            "catalogTable, isStreaming, stream)"
        ),
    ),
    "HadoopFsRelation": InternalClass(
        f"{_SQL}.execution.datasources.HadoopFsRelation",
        "the files of a batch",
        methods="location() inputFiles()",
    ),
    "LogicalRDD": InternalClass(
        f"{_SQL}.execution.LogicalRDD",
        "foreachBatch",
        methods="fromDataset(rdd, originDataset, isStreaming, isFromCheckpoint)",
    ),
    "LocalRelation": InternalClass(
        f"{_CATALYST}.plans.logical.LocalRelation",
        "sources without new data",
        new="output, data, isStreaming, stream",
    ),
    "Union": InternalClass(
        f"{_CATALYST}.plans.logical.Union",
        "batches that leave out parts",
        new="children, byName, allowMissingCol",
    ),
    "Project": InternalClass(
        f"{_CATALYST}.plans.logical.Project",
        "V1 batches",
        new="projectList, child",
        methods="projectList() child()",
    ),
    "CollectMetrics": InternalClass(
        f"{_CATALYST}.plans.logical.CollectMetrics", "metrics of DataFrame.observe"
    ),
    "EventTimeWatermark": InternalClass(
        f"{_CATALYST}.plans.logical.EventTimeWatermark", "watermarks"
    ),
    "Deduplicate": InternalClass(
        f"{_CATALYST}.plans.logical.Deduplicate",
        "the keys of dropDuplicates",
        methods="dedupSpec() copy(keys, child, dedupSpec)",
    ),
    "DeduplicateWithinWatermark": InternalClass(
        f"{_CATALYST}.plans.logical.DeduplicateWithinWatermark",
        "the keys of dropDuplicates",
        methods="dedupSpec() copy(keys, child, dedupSpec)",
    ),
    "ResolveDeduplicate": InternalClass(
        f"{_CATALYST}.analysis.ResolveDeduplicate",
        "the keys of dropDuplicates",
        methods="computeKeys(child, spec, deterministicOrder, resolver)",
    ),
    "SQLConf": InternalClass(
        f"{_SQL}.internal.SQLConf",
        "the keys of dropDuplicates",
        methods="DROP_DUPLICATES_DETERMINISTIC_KEY_ORDER() legacyPathOptionBehavior()",
    ),
    "Source": InternalClass(f"{_STREAMING}.Source", "V1 sources"),
    "V1Offset": InternalClass(f"{_STREAMING}.Offset", "V1 sources"),
    "Alias": InternalClass(
        f"{_CATALYST}.expressions.Alias",
        "V1 batches",
        new="child, name, exprId, qualifier, explicitMetadata, nonInheritableMetadataKeys",
    ),
    "FileSourceMetadataAttribute": InternalClass(
        f"{_CATALYST}.expressions.FileSourceMetadataAttribute", "the _metadata column"
    ),
    "CurrentBatchTimestamp": InternalClass(
        f"{_CATALYST}.expressions.CurrentBatchTimestamp",
        "current_timestamp in a batch",
        new="timestampMs, dataType, timeZoneId",
    ),
    "TreePattern": InternalClass(f"{_CATALYST}.trees.TreePattern", "current_* functions"),
    "AttributeReference": InternalClass(
        f"{_CATALYST}.expressions.AttributeReference", "V1 sources"
    ),
    "Attribute": InternalClass(f"{_CATALYST}.expressions.Attribute", "V1 batches"),
    "Expression": InternalClass(f"{_CATALYST}.expressions.Expression", "current_* functions"),
    "TimeZoneAwareExpression": InternalClass(
        f"{_CATALYST}.expressions.TimeZoneAwareExpression", "current_* functions"
    ),
    "Aggregate": InternalClass(f"{_CATALYST}.plans.logical.Aggregate", "stateful operators"),
    "Join": InternalClass(f"{_CATALYST}.plans.logical.Join", "stateful operators"),
    "HasStreamingSourceIdentifyingName": InternalClass(
        f"{_CATALYST}.streaming.HasStreamingSourceIdentifyingName", "sources with a name"
    ),
    "OffsetSeqMetadataBase": InternalClass(
        f"{_STREAMING}.checkpointing.OffsetSeqMetadataBase", "planning a batch"
    ),
    "SessionState": InternalClass(
        f"{_SQL}.internal.SessionState",
        "Spark's checks of a query",
        methods=(
            "conf() newHadoopConf() executePlan(plan, mode) sqlParser() catalog() analyzer() "
            "catalogManager()"
        ),
    ),
    "QueryManager": InternalClass(
        f"{_SQL}.classic.StreamingQueryManager",
        "listeners",
        methods="postListenerEvent(event) stateStoreCoordinator()",
    ),
    # Sources
    "SerializedOffset": InternalClass(
        f"{_STREAMING}.runtime.SerializedOffset",
        "V1 offsets",
        new="json",
    ),
    "MarkerStream": InternalClass(
        f"{_STREAMING}.sources.RatePerMicroBatchStream",
        "rows read per source",
        new="rowsPerBatch, numPartitions, startTimestamp, advanceMsPerBatch, options",
    ),
    "FileStreamSourceLog": InternalClass(
        f"{_STREAMING}.runtime.FileStreamSourceLog",
        "bisecting a batch of files",
        new="metadataLogVersion, sparkSession, path",
        methods="add(batchId, logs) get(startId, endId)",
    ),
    "FileEntry": InternalClass(
        f"{_STREAMING}.runtime.FileStreamSource$FileEntry",
        "bisecting a batch of files",
        new="path, timestamp, batchId",
        methods="path() timestamp()",
    ),
    "DataSource": InternalClass(
        f"{_SQL}.execution.datasources.DataSource",
        "V1 sources, sinks",
        new=(
            "sparkSession, className, paths, userSpecifiedSchema, partitionColumns, bucketSpec, "
            "options, catalogTable, userSpecifiedStreamingSourceName"
        ),
        methods="createSink(outputMode, writeSchema)",
    ),
    # Sinks
    "V1Sink": InternalClass(f"{_STREAMING}.Sink", "V1 sinks"),
    "MemorySink": InternalClass(
        f"{_STREAMING}.sources.MemorySink",
        "the memory sink",
        new="",
    ),
    "MemoryPlan": InternalClass(
        f"{_STREAMING}.sources.MemoryPlan",
        "the memory sink",
        methods="apply(sink, output)",
    ),
    "ForeachWriterTable": InternalClass(
        f"{_STREAMING}.sources.ForeachWriterTable",
        "foreach",
        methods="apply(writer, encoder)",
    ),
    "ForeachBatchSink": InternalClass(
        f"{_STREAMING}.sources.ForeachBatchSink",
        "foreachBatch",
        new="batchWriter, encoder",
    ),
    "FileStreamSink": InternalClass(f"{_STREAMING}.sinks.FileStreamSink", "the log of a file sink"),
    "PythonForeachWriter": InternalClass(
        f"{_SQL}.execution.python.streaming.PythonForeachWriter",
        "foreach",
        new="func, schema",
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
        f"{_SQL}.execution.datasources.v2.DataSourceV2Relation",
        "V2 sinks",
        methods="create(table, catalog, identifier)",
    ),
    "WriteToMicroBatchDataSource": InternalClass(
        f"{_STREAMING}.sources.WriteToMicroBatchDataSource",
        "V2 sinks",
        new="relation, query, queryId, writeOptions, outputMode, batchId",
    ),
    "WriteToMicroBatchDataSourceV1": InternalClass(
        f"{_STREAMING}.sources.WriteToMicroBatchDataSourceV1",
        "V1 sinks",
        new="catalogTable, sink, query, queryId, writeOptions, outputMode, batchId",
    ),
    "WriteToDataSourceV2Exec": InternalClass(
        f"{_SQL}.execution.datasources.v2.WriteToDataSourceV2Exec", "rows a V2 sink wrote"
    ),
    "StreamWriterCommitProgress": InternalClass(
        f"{_SQL}.execution.datasources.v2.StreamWriterCommitProgress", "rows a V2 sink wrote"
    ),
    "WriteToStreamStatement": InternalClass(
        f"{_CATALYST}.streaming.WriteToStreamStatement",
        "Spark's checks of a query",
        new=(
            "userSpecifiedName, userSpecifiedSinkName, userSpecifiedCheckpointLocation, "
            "useTempCheckpointLocation, recoverFromCheckpointLocation, sink, outputMode, "
            "hadoopConf, trigger, inputQuery, catalogAndIdent, catalogTable"
        ),
    ),
    "QueryCompilationErrors": InternalClass(
        f"{_SQL}.errors.QueryCompilationErrors", "Spark's own messages for mistakes in a query"
    ),
    "DataTypeUtils": InternalClass(
        f"{_CATALYST}.types.DataTypeUtils",
        "the memory sink",
        methods="toAttributes(schema)",
    ),
    # Running a batch
    "IncrementalExecution": InternalClass(
        f"{_STREAMING}.runtime.IncrementalExecution",
        "planning a batch",
        new=(
            "sparkSession, logicalPlan, outputMode, checkpointLocation, queryId, runId, "
            "currentBatchId, prevOffsetSeqMetadata, offsetSeqMetadata, watermarkPropagator, "
            "isFirstBatch, currentStateStoreCkptId, stateSchemaMetadatas, mode, "
            "isTerminatingTrigger, isRealTimeMode"
        ),
        methods="shouldRunAnotherBatch(newMetadata)",
    ),
    "OffsetSeqMetadata": InternalClass(
        f"{_STREAMING}.checkpointing.OffsetSeqMetadata",
        "settings recorded in the offset log",
        methods="apply(json) readValueOpt(metadata, confEntry)",
    ),
    "WatermarkPropagator": InternalClass(
        f"{_STREAMING}.runtime.WatermarkPropagator", "several stateful operators"
    ),
    "PlanTraverseHelper": InternalClass(
        f"{_STREAMING}.StreamingQueryPlanTraverseHelper", "statistics of a batch"
    ),
    "StateStoreWriter": InternalClass(
        f"{_STREAMING}.operators.stateful.StateStoreWriter",
        "state figures",
        methods=(
            "getStateInfo() stateInfo() operatorStateMetadataVersion() "
            "getStateStoreCheckpointInfo()"
        ),
    ),
    "StateStoreErrors": InternalClass(
        f"{_STREAMING}.state.StateStoreErrors",
        "checking state checkpoint ids",
        methods=(
            "stateStoreBaseCheckpointIdMismatch(batchVersion, partitionId, operatorId, expected, "
            "actual)"
        ),
    ),
    "OperatorStateMetadataFiles": InternalClass(
        f"{_STREAMING}.state.OperatorStateMetadataV2FileManager",
        "removing old state metadata",
        new="stateCheckpointPath, sparkSession, statefulOperator",
        methods="purgeMetadataFiles()",
    ),
    "EventTimeWatermarkExec": InternalClass(
        f"{_STREAMING}.operators.stateful.EventTimeWatermarkExec", "watermarks"
    ),
    "EventTimeStats": InternalClass(
        f"{_STREAMING}.operators.stateful.EventTimeStats", "watermarks"
    ),
    "StateOperatorProgress": InternalClass(
        f"{_SQL}.streaming.StateOperatorProgress", "state figures"
    ),
    "StreamingExplainCommand": InternalClass(
        f"{_SQL}.execution.command.StreamingExplainCommand",
        "explain",
        new="queryExecution, extended",
    ),
    # Checkpoint files that are not local
    "CheckpointFileManager": InternalClass(
        f"{_STREAMING}.checkpointing.CheckpointFileManager",
        "checkpoints that are not local",
        methods=(
            "create(path, hadoopConf) createAtomic(path, overwriteIfPossible) open(path) "
            "exists(path) list(path) mkdirs(path) delete(path)"
        ),
    ),
    "FileSystemBasedCheckpointFileManager": InternalClass(
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
        "the state files of local checkpoints",
    ),
    # Events
    "QueryProgress": InternalClass(
        f"{_SQL}.streaming.StreamingQueryProgress",
        "listeners",
        new=(
            "id, runId, name, timestamp, batchId, batchDuration, durationMs, eventTime, "
            "stateOperators, sources, sink, observedMetrics"
        ),
    ),
    "QueryStartedEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryStartedEvent",
        "listeners",
        new="id, runId, name, timestamp",
    ),
    "QueryProgressEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryProgressEvent",
        "listeners",
        new="progress",
    ),
    "QueryIdleEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryIdleEvent",
        "listeners",
        new="id, runId, timestamp",
    ),
    "QueryTerminatedEvent": InternalClass(
        f"{_SQL}.streaming.StreamingQueryListener$QueryTerminatedEvent",
        "listeners",
        new="id, runId, exception, errorClassOnException",
    ),
    "WriteToStream": InternalClass(
        f"{_CATALYST}.streaming.WriteToStream",
        "Spark's checks of a query",
        methods="inputQuery() sink()",
    ),
    "SparkEnv": InternalClass("org.apache.spark.SparkEnv", "gauges of a query"),
    "MetricsSystem": InternalClass("org.apache.spark.metrics.MetricsSystem", "gauges of a query"),
    "MetricsSource": InternalClass("org.apache.spark.metrics.source.Source", "gauges of a query"),
    "StateStoreCoordinator": InternalClass(
        f"{_STREAMING}.state.StateStoreCoordinatorRef",
        "tracking commits of state stores",
        methods=(
            "startStateStoreCommitTrackingForBatch(runId, batchId, expectedStores) "
            "validateStateStoreCommitForBatch(runId, batchId) deactivateInstances(runId) "
            "logLaggingStateStores(queryRunId, latestVersion, isTerminatingTrigger)"
        ),
    ),
    "StateInfo": InternalClass(
        f"{_STREAMING}.operators.stateful.StatefulOperatorStateInfo",
        "state figures",
        methods="operatorId() checkpointLocation()",
    ),
    "StateCheckpointInfo": InternalClass(
        f"{_STREAMING}.operators.stateful.StatefulOpStateStoreCheckpointInfo",
        "state checkpoint ids",
        methods="partitionId() batchVersion() stateStoreCkptId() baseStateStoreCkptId()",
    ),
}
