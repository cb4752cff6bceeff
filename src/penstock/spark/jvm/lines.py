"""What is different from one line of Spark to the next. No other module asks for versions.

A line is a minor version with its patch releases. The newest has the table in `internal_classes`;
each older one is described by what is different from the next newer. The Java sources have
variants too: `java/lines/Name-4.1.java` holds for 4.1 and every later line, up to the next variant
of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.errors import UnsupportedError
from penstock.spark.jvm.internal_classes import INTERNAL_CLASSES
from penstock.spark.jvm.internals import InternalClass

_SQL = "org.apache.spark.sql"
_STREAMING = f"{_SQL}.execution.streaming"


@dataclass(frozen=True)
class SparkLine:
    """A line of Spark: its internal classes, and how its engine sets up the session of a query.

    `state_partitions_key` is the setting that fixes the number of partitions of state, None where
    the number of shuffle partitions is used. `adaptive_execution` says whether the engine leaves
    adaptive query execution on for stateless queries.
    """

    name: str
    classes: dict[str, InternalClass]
    adaptive_execution: bool = True
    state_partitions_key: str | None = "spark.sql.streaming.internal.stateStore.partitions"

    @property
    def number(self) -> tuple[int, ...]:
        return version_number(self.name)

    def has(self, class_name: str) -> bool:
        """Whether the line has an internal class of the table."""
        return class_name in self.classes


def version_number(text: str) -> tuple[int, ...]:
    """The major and minor number of a version such as `4.1` or `4.1.2-SNAPSHOT`."""
    return tuple(int(part) for part in text.split(".")[:2])


def _older(
    newer: SparkLine,
    name: str,
    *,
    absent: Iterable[str] = (),
    moved: Mapping[str, str] | None = None,
    new: Mapping[str, str] | None = None,
    methods: Mapping[str, str] | None = None,
    adaptive_execution: bool | None = None,
    state_partitions_key: str | None = "",
) -> SparkLine:
    """The line before another: classes that it does not have, and those that are different."""
    classes = {key: known for key, known in newer.classes.items() if key not in set(absent)}
    for key, class_name in (moved or {}).items():
        classes[key] = replace(classes[key], name=class_name)
    for key, parameters in (new or {}).items():
        classes[key] = replace(classes[key], new=parameters)
    for key, signatures in (methods or {}).items():
        classes[key] = replace(classes[key], methods=signatures)
    return SparkLine(
        name,
        classes,
        newer.adaptive_execution if adaptive_execution is None else adaptive_execution,
        newer.state_partitions_key if state_partitions_key == "" else state_partitions_key,
    )


_4_3 = SparkLine("4.3", INTERNAL_CLASSES)

_4_2 = _older(
    _4_3,
    "4.2",
    absent=("ResolveDeduplicate", "V2Reference"),
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
)

_4_1 = _older(
    _4_2,
    "4.1",
    absent=("HasStreamingSourceIdentifyingName", "Unassigned"),
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
    methods={"StateStoreErrors": ""},
)

_IN_SUBPACKAGES_SINCE_4_1 = {
    "CheckpointFileManager": "CheckpointFileManager",
    "EventTimeStats": "EventTimeStats",
    "EventTimeWatermarkExec": "EventTimeWatermarkExec",
    "FileEntry": "FileStreamSource$FileEntry",
    "FileStreamSink": "FileStreamSink",
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
)

LINES = {line.name: line for line in (_4_3, _4_2, _4_1, _4_0)}
"""The lines of Spark that this release was tried on, the newest first."""

NEWEST = _4_3


def find_line(version: str) -> SparkLine | None:
    """The line of a version of Spark, None for one that this release was not tried on."""
    return LINES.get(".".join(version.split(".")[:2]))


def supported_versions() -> str:
    """The lines that are supported, for messages."""
    return ", ".join(f"{name}.x" for name in sorted(LINES, key=version_number))


def line_of(version: str) -> SparkLine:
    """The line of a version of Spark. UnsupportedError for one that is not known."""
    found = find_line(version)
    if found is None:
        raise UnsupportedError(
            f"Spark {version} is not supported; this release of Penstock runs on Spark "
            f"{supported_versions()}."
        )
    return found
