"""The differences between Spark lines. No other module checks Spark's version.

A line is a minor version with its patch releases. The newest uses the table in `internal_classes`;
each older one is defined by its differences from the next newer. The Java sources have
variants too: `java/lines/Name-4.1.java` applies to 4.1 and every later line, up to the next
variant of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.checkpoint.timestamps import format_timestamp
from penstock.engine.progress import StateOperatorProgress
from penstock.errors import UnsupportedError
from penstock.spark.jvm.internal_classes import INTERNAL_CLASSES
from penstock.spark.jvm.internals import InternalClass

_SQL = "org.apache.spark.sql"
_CATALYST = f"{_SQL}.catalyst"
_STREAMING = f"{_SQL}.execution.streaming"


@dataclass(frozen=True)
class SparkLine:
    """A Spark line: its internal classes, and how its engine behaves where lines differ."""

    name: str
    classes: dict[str, InternalClass]

    adaptive_execution: bool = True
    """Whether the engine leaves adaptive query execution on for stateless queries."""

    always_wraps_for_available_now: bool = False
    """Whether AvailableNow wraps a source that does not support it without a setting for that."""

    state_partitions_key: str | None = "spark.sql.streaming.internal.stateStore.partitions"
    """The setting for the number of state partitions; None if it is that of shuffles."""

    newest_offset_log: int = 2
    newest_commit_log: int | None = 3
    """The newest version that is read; None if only the version of the state format is."""

    resolves_log_versions: bool = True
    """Whether named sources require offset log 2, and a checkpoint keeps its commit log version.

    If False, the settings of the session decide both.
    """

    batch_figures: frozenset[str] = StateOperatorProgress.of_the_batch
    """The fields of a stateful operator that are 0 in a trigger without a batch."""

    has_batch_function_error: bool = True
    """Whether exceptions of `foreachBatch` functions have an error condition of their own."""

    has_log_conditions: bool = True
    """Whether errors about log versions have error conditions."""

    observes_empty_batches: bool = True
    """Whether a batch without new data reports the metrics of `DataFrame.observe`."""

    reports_first_watermark: bool = False
    """Whether a trigger reports the watermark before any batch has run."""

    rounds_rates: bool = True
    """Whether the JSON of a progress record has rates with one decimal."""

    shows_batch_duration: bool = True
    """Whether the JSON of a progress record has the duration of the batch."""

    signs_long_years: bool = True
    """Whether a year beyond 9999 has a plus sign in a progress record."""

    @property
    def number(self) -> tuple[int, ...]:
        return version_number(self.name)

    def event_time_text(self, millis: int) -> str:
        """Format an event time as in progress records of this line."""
        text = format_timestamp(millis)
        return text if self.signs_long_years else text.removeprefix("+")

    def has(self, class_name: str) -> bool:
        """Whether the line has the internal class with this key."""
        return class_name in self.classes


def version_number(text: str) -> tuple[int, ...]:
    """The major and minor number of a version such as `4.1` or `4.1.2-SNAPSHOT`."""
    return tuple(int(part) for part in text.split(".")[:2])


def _older(
    newer: SparkLine,
    name: str,
    *,
    absent: Iterable[str] = (),
    added: Mapping[str, InternalClass] | None = None,
    moved: Mapping[str, str] | None = None,
    new: Mapping[str, str] | None = None,
    methods: Mapping[str, str] | None = None,
    **facts: Any,
) -> SparkLine:
    """Define a line by its differences from the next newer one.

    `absent` are the classes it lacks, `added` the classes that only this line and older ones use.
    """
    classes = {key: known for key, known in newer.classes.items() if key not in set(absent)}
    classes |= added or {}
    for key, class_name in (moved or {}).items():
        classes[key] = replace(classes[key], name=class_name)
    for key, parameters in (new or {}).items():
        classes[key] = replace(classes[key], new=parameters)
    for key, signatures in (methods or {}).items():
        classes[key] = replace(classes[key], methods=signatures)
    return replace(newer, name=name, classes=classes, **facts)


_4_3 = SparkLine("4.3", INTERNAL_CLASSES)

_4_2 = _older(
    _4_3,
    "4.2",
    absent=("ResolveDeduplicate",),
    moved={"V2Reference": f"{_SQL}.catalyst.analysis.V2TableReference"},
    new={
        "IncrementalExecution": (
            "sparkSession, logicalPlan, outputMode, checkpointLocation, queryId, runId, "
            "currentBatchId, prevOffsetSeqMetadata, offsetSeqMetadata, watermarkPropagator, "
            "isFirstBatch, currentStateStoreCkptId, stateSchemaMetadatas, mode, "
            "isTerminatingTrigger"
        ),
    },
    methods={
        "DataSource": "createSink(outputMode)",
        "Deduplicate": "",
        "DeduplicateWithinWatermark": "",
        "LogicalRDD": "fromDataset(rdd, originDataset, isStreaming)",
        "SQLConf": "legacyPathOptionBehavior()",
    },
    resolves_log_versions=False,
    batch_figures=frozenset({"numRowsUpdated", "numRowsDroppedByWatermark", "numRowsRemoved"}),
)

_4_1 = _older(
    _4_2,
    "4.1",
    absent=(
        "HasStreamingSourceIdentifyingName",
        "StateRepartition",
        "StateStoreErrors",
        "Unassigned",
        "V2Reference",
    ),
    moved={"OffsetSeqMetadataBase": f"{_STREAMING}.checkpointing.OffsetSeqMetadata"},
    new={
        "DataSource": (
            "sparkSession, className, paths, userSpecifiedSchema, partitionColumns, bucketSpec, "
            "options, catalogTable"
        ),
        "StreamingDataSourceV2Relation": (
            "table, output, catalog, identifier, options, metadataPath, realTimeModeDuration"
        ),
        "StreamingRelation": "dataSource, sourceName, output",
        "WriteToMicroBatchDataSource": (
            "catalogRelation, table, query, queryId, writeOptions, outputMode, batchId"
        ),
        "WriteToStreamStatement": (
            "userSpecifiedName, userSpecifiedCheckpointLocation, useTempCheckpointLocation, "
            "recoverFromCheckpointLocation, sink, outputMode, hadoopConf, trigger, inputQuery, "
            "catalogAndIdent, catalogTable"
        ),
    },
    newest_offset_log=1,
    newest_commit_log=None,
    batch_figures=frozenset({"numRowsUpdated", "numRowsDroppedByWatermark"}),
)

_IN_SUBPACKAGES_SINCE_4_1 = {
    "CheckpointFileManager": "CheckpointFileManager",
    "CompactibleFileStreamLog": "CompactibleFileStreamLog",
    "EventTimeStats": "EventTimeStats",
    "EventTimeWatermarkExec": "EventTimeWatermarkExec",
    "FileEntry": "FileStreamSource$FileEntry",
    "FileStreamSink": "FileStreamSink",
    "FileStreamSource": "FileStreamSource",
    "FileStreamSourceLog": "FileStreamSourceLog",
    "FileSystemBasedCheckpointFileManager": "FileSystemBasedCheckpointFileManager",
    "IncrementalExecution": "IncrementalExecution",
    "OffsetSeqMetadata": "OffsetSeqMetadata",
    "OffsetSeqMetadataBase": "OffsetSeqMetadata",
    "SerializedOffset": "SerializedOffset",
    "StateCheckpointInfo": "StatefulOpStateStoreCheckpointInfo",
    "StateInfo": "StatefulOperatorStateInfo",
    "StateStoreWriter": "StateStoreWriter",
    "StreamingRelation": "StreamingRelation",
    "WatermarkPropagator": "WatermarkPropagator",
}

_4_0 = _older(
    _4_1,
    "4.0",
    absent=("PlanTraverseHelper",),
    moved={key: f"{_STREAMING}.{name}" for key, name in _IN_SUBPACKAGES_SINCE_4_1.items()},
    new={
        "IncrementalExecution": (
            "sparkSession, logicalPlan, outputMode, checkpointLocation, queryId, runId, "
            "currentBatchId, prevOffsetSeqMetadata, offsetSeqMetadata, watermarkPropagator, "
            "isFirstBatch, currentStateStoreCkptId, stateSchemaMetadatas, mode"
        ),
        "StreamingDataSourceV2Relation": (
            "table, output, catalog, identifier, options, metadataPath"
        ),
        "UnresolvedTableSpec": (
            "properties, provider, optionExpression, location, comment, collation, serde, external"
        ),
        "WriteToStreamStatement": (
            "userSpecifiedName, userSpecifiedCheckpointLocation, useTempCheckpointLocation, "
            "recoverFromCheckpointLocation, sink, outputMode, hadoopConf, isContinuousTrigger, "
            "inputQuery, catalogAndIdent, catalogTable"
        ),
    },
    methods={
        "OffsetSeqMetadata": "apply(json)",
        "StateStoreCoordinator": "deactivateInstances(runId)",
    },
    adaptive_execution=False,
    state_partitions_key=None,
    rounds_rates=False,
)

_3_5 = _older(
    _4_0,
    "3.5",
    absent=(
        "ClusterByTransform",
        "ColumnDefinition",
        "OperatorStateMetadataFiles",
        "PythonDataSourceV2",
        "StateCheckpointInfo",
        "StateStoreErrors",
        "StreamSourceAwareLogicalPlan",
        "StreamSourceAwareSparkPlan",
        "StreamingDataSourceV2ScanRelation",
    ),
    added={
        "InlineCTE": InternalClass(
            f"{_CATALYST}.optimizer.InlineCTE", "rows read per source", new="alwaysInline"
        ),
        "MicroBatchScanExec": InternalClass(
            f"{_SQL}.execution.datasources.v2.MicroBatchScanExec", "rows read per source"
        ),
        "SinkProgress": InternalClass(
            f"{_SQL}.streaming.SinkProgress",
            "listeners",
            new="description, numOutputRows, metrics",
        ),
        "SourceProgress": InternalClass(
            f"{_SQL}.streaming.SourceProgress",
            "listeners",
            new=(
                "description, startOffset, endOffset, latestOffset, numInputRows, "
                "inputRowsPerSecond, processedRowsPerSecond, metrics"
            ),
        ),
        "WithCTE": InternalClass(f"{_CATALYST}.plans.logical.WithCTE", "rows read per source"),
    },
    moved={
        "ClassicDataset": f"{_SQL}.Dataset",
        "ClassicSession": f"{_SQL}.SparkSession",
        "PythonForeachWriter": f"{_SQL}.execution.python.PythonForeachWriter",
        "QueryManager": f"{_SQL}.streaming.StreamingQueryManager",
    },
    new={
        "CreateTable": "name, tableSchema, partitioning, tableSpec, ignoreIfExists",
        "IncrementalExecution": (
            "sparkSession, logicalPlan, outputMode, checkpointLocation, queryId, runId, "
            "currentBatchId, prevOffsetSeqMetadata, offsetSeqMetadata, watermarkPropagator"
        ),
        "LocalRelation": "output, data, isStreaming",
        "StateOperatorProgress": (
            "operatorName, numRowsTotal, numRowsUpdated, allUpdatesTimeMs, numRowsRemoved, "
            "allRemovalsTimeMs, commitTimeMs, memoryUsedBytes, numRowsDroppedByWatermark, "
            "numShufflePartitions, numStateStoreInstances, customMetrics"
        ),
        "StreamingDataSourceV2Relation": (
            "output, scan, stream, catalog, identifier, startOffset, endOffset"
        ),
        "UnresolvedTableSpec": (
            "properties, provider, optionExpression, location, comment, serde, external"
        ),
    },
    methods={
        "JobGroups": "cancelJobGroup(groupId)",
        "LogicalRelation": (
            "withMetadataColumns() relation() catalogTable() "
            "copy(relation, output, catalogTable, isStreaming)"
        ),
        "StateStoreWriter": "getStateInfo()",
    },
    always_wraps_for_available_now=True,
    newest_commit_log=1,
    has_batch_function_error=False,
    has_log_conditions=False,
    observes_empty_batches=False,
    reports_first_watermark=True,
    shows_batch_duration=False,
    signs_long_years=False,
)

LINES = {line.name: line for line in (_4_3, _4_2, _4_1, _4_0, _3_5)}
"""The Spark lines that this release is tested on, the newest first."""

NEWEST = _4_3


def find_line(version: str) -> SparkLine | None:
    """The line of a Spark version; None for one that this release is not tested on."""
    return LINES.get(".".join(version.split(".")[:2]))


def supported_versions() -> str:
    """The supported lines, as text for messages."""
    return ", ".join(f"{name}.x" for name in sorted(LINES, key=version_number))


def line_of(version: str) -> SparkLine:
    """The line of a Spark version. Raises UnsupportedError for an unknown one."""
    found = find_line(version)
    if found is None:
        raise UnsupportedError(
            f"Spark {version} is not supported; this release of Penstock runs on Spark "
            f"{supported_versions()}."
        )
    return found
