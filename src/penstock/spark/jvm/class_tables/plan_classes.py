"""Spark's classes for logical plans, their leaves and expressions. See `internal_classes`."""

from __future__ import annotations

from penstock.spark.jvm.class_tables.spark_packages import CATALYST, SQL, STREAMING
from penstock.spark.jvm.internals import InternalClass

_KEPT = "keeping optimized plans"

PLAN_CLASSES: dict[str, InternalClass] = {
    # Streaming leaves
    "StreamingRelation": InternalClass(
        f"{STREAMING}.runtime.StreamingRelation",
        "V1 sources",
        new="dataSource, sourceName, output, sourceIdentifyingName",
        methods="dataSource()",
    ),
    "StreamingRelationV2": InternalClass(f"{CATALYST}.streaming.StreamingRelationV2", "V2 sources"),
    "Unassigned": InternalClass(f"{CATALYST}.streaming.Unassigned", "sources without a name"),
    "StreamingDataSourceV2Relation": InternalClass(
        f"{SQL}.execution.datasources.v2.StreamingDataSourceV2Relation",
        "V2 sources",
        new=(
            "table, output, catalog, identifier, options, metadataPath, realTimeModeDuration, "
            "sourceIdentifyingName"
        ),
    ),
    "StreamingDataSourceV2ScanRelation": InternalClass(
        f"{SQL}.execution.datasources.v2.StreamingDataSourceV2ScanRelation",
        "V2 sources",
        new="relation, scan, output, stream, startOffset, endOffset",
    ),
    "StreamSourceAwareLogicalPlan": InternalClass(
        f"{CATALYST}.plans.logical.StreamSourceAwareLogicalPlan", "rows read per source"
    ),
    "HasStreamingSourceIdentifyingName": InternalClass(
        f"{CATALYST}.streaming.HasStreamingSourceIdentifyingName", "sources with a name"
    ),
    "V2Reference": InternalClass(
        f"{CATALYST}.analysis.V2Reference",
        "tables of transactional catalogs",
        methods="createForWriteTarget(relation)",
    ),
    # Leaves of a batch
    "LogicalRelation": InternalClass(
        f"{SQL}.execution.datasources.LogicalRelation",
        "file sources",
        methods=(
            "withMetadataColumns() relation() catalogTable() stream() copy(relation, output, "
            "catalogTable, isStreaming, stream)"
        ),
    ),
    "HadoopFsRelation": InternalClass(
        f"{SQL}.execution.datasources.HadoopFsRelation",
        "the files of a batch",
        methods="location() inputFiles()",
    ),
    "LogicalRDD": InternalClass(
        f"{SQL}.execution.LogicalRDD",
        "foreachBatch",
        methods="fromDataset(rdd, originDataset, isStreaming, isFromCheckpoint)",
    ),
    "LocalRelation": InternalClass(
        f"{CATALYST}.plans.logical.LocalRelation",
        "sources without new data",
        new="output, data, isStreaming, stream",
    ),
    # Operators
    "LogicalPlan": InternalClass(
        f"{CATALYST}.plans.logical.LogicalPlan",
        "V1 sources",
        methods=(
            "children() withNewChildren(newChildren) output() outputSet() metadataOutput() schema()"
        ),
    ),
    "Union": InternalClass(
        f"{CATALYST}.plans.logical.Union",
        "batches that leave out parts",
        new="children, byName, allowMissingCol",
    ),
    "Project": InternalClass(
        f"{CATALYST}.plans.logical.Project",
        "V1 batches",
        new="projectList, child",
        methods="projectList() child()",
    ),
    "CollectMetrics": InternalClass(
        f"{CATALYST}.plans.logical.CollectMetrics", "metrics of DataFrame.observe"
    ),
    "EventTimeWatermark": InternalClass(
        f"{CATALYST}.plans.logical.EventTimeWatermark", "watermarks"
    ),
    "Aggregate": InternalClass(f"{CATALYST}.plans.logical.Aggregate", "stateful operators"),
    "Join": InternalClass(f"{CATALYST}.plans.logical.Join", "stateful operators"),
    "Deduplicate": InternalClass(
        f"{CATALYST}.plans.logical.Deduplicate",
        "the keys of dropDuplicates",
        methods="dedupSpec() copy(keys, child, dedupSpec)",
    ),
    "DeduplicateWithinWatermark": InternalClass(
        f"{CATALYST}.plans.logical.DeduplicateWithinWatermark",
        "the keys of dropDuplicates",
        methods="dedupSpec() copy(keys, child, dedupSpec)",
    ),
    "ResolveDeduplicate": InternalClass(
        f"{CATALYST}.analysis.ResolveDeduplicate",
        "the keys of dropDuplicates",
        methods="computeKeys(child, spec, deterministicOrder, resolver)",
    ),
    # Optimization
    "OptimizerBatch": InternalClass(f"{CATALYST}.rules.RuleExecutor$Batch", _KEPT),
    "V2Writes": InternalClass(f"{SQL}.execution.datasources.v2.V2Writes", _KEPT),
    "WriteToDataSourceV2": InternalClass(
        f"{SQL}.execution.datasources.v2.WriteToDataSourceV2", _KEPT
    ),
    "SupportsStreamingUpdateAsAppend": InternalClass(
        f"{SQL}.internal.connector.SupportsStreamingUpdateAsAppend", _KEPT
    ),
    # Expressions
    "Expression": InternalClass(f"{CATALYST}.expressions.Expression", "current_* functions"),
    "Attribute": InternalClass(f"{CATALYST}.expressions.Attribute", "V1 batches"),
    "AttributeReference": InternalClass(f"{CATALYST}.expressions.AttributeReference", "V1 sources"),
    "Alias": InternalClass(
        f"{CATALYST}.expressions.Alias",
        "V1 batches",
        new="child, name, exprId, qualifier, explicitMetadata, nonInheritableMetadataKeys",
    ),
    "FileSourceMetadataAttribute": InternalClass(
        f"{CATALYST}.expressions.FileSourceMetadataAttribute", "the _metadata column"
    ),
    "CurrentBatchTimestamp": InternalClass(
        f"{CATALYST}.expressions.CurrentBatchTimestamp",
        "current_timestamp in a batch",
        new="timestampMs, dataType, timeZoneId",
    ),
    "TimeZoneAwareExpression": InternalClass(
        f"{CATALYST}.expressions.TimeZoneAwareExpression", "current_* functions"
    ),
    "RuntimeReplaceable": InternalClass(f"{CATALYST}.expressions.RuntimeReplaceable", _KEPT),
    "PlanExpression": InternalClass(f"{CATALYST}.expressions.PlanExpression", _KEPT),
    "ExpressionWithRandomSeed": InternalClass(
        f"{CATALYST}.expressions.ExpressionWithRandomSeed", _KEPT
    ),
    "ScalaUDF": InternalClass(f"{CATALYST}.expressions.ScalaUDF", _KEPT),
    "ApplyFunctionExpression": InternalClass(
        f"{CATALYST}.expressions.ApplyFunctionExpression", _KEPT
    ),
    "Invoke": InternalClass(f"{CATALYST}.expressions.objects.Invoke", _KEPT),
    "StaticInvoke": InternalClass(f"{CATALYST}.expressions.objects.StaticInvoke", _KEPT),
    "NewInstance": InternalClass(f"{CATALYST}.expressions.objects.NewInstance", _KEPT),
    "TreePattern": InternalClass(f"{CATALYST}.trees.TreePattern", "current_* functions"),
    "DataTypeUtils": InternalClass(
        f"{CATALYST}.types.DataTypeUtils",
        "the memory sink",
        methods="toAttributes(schema)",
    ),
}
