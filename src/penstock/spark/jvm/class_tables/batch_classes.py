"""Spark's classes for running a batch, and for its state. See `internal_classes`."""

from __future__ import annotations

from penstock.spark.jvm.class_tables.spark_packages import CATALYST, SQL, STREAMING
from penstock.spark.jvm.internals import InternalClass

BATCH_CLASSES: dict[str, InternalClass] = {
    # Datasets and executions
    "ClassicDataset": InternalClass(
        f"{SQL}.classic.Dataset",
        "a batch as a Dataset",
        methods="ofRows(sparkSession, logicalPlan) exprEnc() logicalPlan() queryExecution()",
    ),
    "ExpressionEncoder": InternalClass(f"{CATALYST}.encoders.ExpressionEncoder", "rows of a batch"),
    "QueryExecution": InternalClass(
        f"{SQL}.execution.QueryExecution",
        "running a batch",
        methods="analyzed() executedPlan() observedMetrics() toRdd()",
    ),
    "SQLExecution": InternalClass(
        f"{SQL}.execution.SQLExecution",
        "a batch as one SQL execution",
        methods="withNewExecutionId(queryExecution, name, body)",
    ),
    "CommandExecutionMode": InternalClass(
        f"{SQL}.execution.CommandExecutionMode",
        "planning a batch",
        methods="ALL()",
    ),
    "StreamingExplainCommand": InternalClass(
        f"{SQL}.execution.command.StreamingExplainCommand",
        "explain",
        new="queryExecution, extended",
    ),
    # Planning
    "IncrementalExecution": InternalClass(
        f"{STREAMING}.runtime.IncrementalExecution",
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
        f"{STREAMING}.checkpointing.OffsetSeqMetadata",
        "settings recorded in the offset log",
        methods="apply(json) readValueOpt(metadata, confEntry)",
    ),
    "OffsetSeqMetadataBase": InternalClass(
        f"{STREAMING}.checkpointing.OffsetSeqMetadataBase", "planning a batch"
    ),
    "WatermarkPropagator": InternalClass(
        f"{STREAMING}.runtime.WatermarkPropagator", "several stateful operators"
    ),
    # The executed plan
    "SparkPlan": InternalClass(f"{SQL}.execution.SparkPlan", "statistics of a batch"),
    "StreamSourceAwareSparkPlan": InternalClass(
        f"{SQL}.execution.StreamSourceAwareSparkPlan", "rows read per source"
    ),
    "PlanTraverseHelper": InternalClass(
        f"{STREAMING}.StreamingQueryPlanTraverseHelper", "statistics of a batch"
    ),
    "EventTimeWatermarkExec": InternalClass(
        f"{STREAMING}.operators.stateful.EventTimeWatermarkExec", "watermarks"
    ),
    "EventTimeStats": InternalClass(f"{STREAMING}.operators.stateful.EventTimeStats", "watermarks"),
    # State
    "StateStoreWriter": InternalClass(
        f"{STREAMING}.operators.stateful.StateStoreWriter",
        "state figures",
        methods="getStateInfo() operatorStateMetadataVersion()",
    ),
    "StateInfo": InternalClass(
        f"{STREAMING}.operators.stateful.StatefulOperatorStateInfo",
        "state figures",
        methods="checkpointLocation()",
    ),
    "StateCheckpointInfo": InternalClass(
        f"{STREAMING}.operators.stateful.StatefulOpStateStoreCheckpointInfo",
        "state checkpoint ids",
    ),
    "StateOperatorProgress": InternalClass(
        f"{SQL}.streaming.StateOperatorProgress", "state figures"
    ),
    "StateStoreCoordinator": InternalClass(
        f"{STREAMING}.state.StateStoreCoordinatorRef",
        "tracking commits of state stores",
        methods=(
            "startStateStoreCommitTrackingForBatch(runId, batchId, expectedStores) "
            "validateStateStoreCommitForBatch(runId, batchId) deactivateInstances(runId) "
            "logLaggingStateStores(queryRunId, latestVersion, isTerminatingTrigger)"
        ),
    ),
    "StateStoreErrors": InternalClass(
        f"{STREAMING}.state.StateStoreErrors",
        "checking state checkpoint ids",
        methods=(
            "stateStoreBaseCheckpointIdMismatch(batchVersion, partitionId, operatorId, expected, "
            "actual)"
        ),
    ),
    "OperatorStateMetadataFiles": InternalClass(
        f"{STREAMING}.state.OperatorStateMetadataV2FileManager",
        "removing old state metadata",
        new="stateCheckpointPath, sparkSession, statefulOperator",
        methods="purgeMetadataFiles()",
    ),
    "StateRepartition": InternalClass(
        f"{STREAMING}.state.OfflineStateRepartitionRunner",
        "changing the number of state partitions",
        new="sparkSession, checkpointLocation, numPartitions, enforceExactlyOnceSink",
        methods="run()",
    ),
}
