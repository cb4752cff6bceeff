"""Spark's classes for sessions, listeners, metrics and checkpoint files. See `internal_classes`."""

from __future__ import annotations

from penstock.spark.jvm.class_tables.spark_packages import CATALYST, SQL, STREAMING
from penstock.spark.jvm.internals import InternalClass

SESSION_CLASSES: dict[str, InternalClass] = {
    # Sessions and settings
    "ClassicSession": InternalClass(
        f"{SQL}.classic.SparkSession",
        "the active session",
        methods=(
            "setActiveSession(session) cloneSession() sessionState() streams() conf() "
            "sessionUUID() internalCreateDataFrame(catalystRows, schema, isStreaming)"
        ),
    ),
    "SessionState": InternalClass(
        f"{SQL}.internal.SessionState",
        "Spark's checks of a query",
        methods=(
            "conf() newHadoopConf() executePlan(plan, mode) sqlParser() catalog() analyzer() "
            "catalogManager()"
        ),
    ),
    "SQLConf": InternalClass(
        f"{SQL}.internal.SQLConf",
        "the keys of dropDuplicates",
        methods="DROP_DUPLICATES_DETERMINISTIC_KEY_ORDER() legacyPathOptionBehavior()",
    ),
    "JavaUtils": InternalClass(
        "org.apache.spark.network.util.JavaUtils",
        "settings",
        methods="timeStringAsMs(str)",
    ),
    "JobGroups": InternalClass(
        "org.apache.spark.SparkContext",
        "stopping a query",
        methods="cancelJobGroup(groupId, reason)",
    ),
    "SparkEnv": InternalClass(
        "org.apache.spark.SparkEnv", "gauges, broadcasts of the Hadoop configuration"
    ),
    # Spark's checks of a query
    "WriteToStreamStatement": InternalClass(
        f"{CATALYST}.streaming.WriteToStreamStatement",
        "Spark's checks of a query",
        new=(
            "userSpecifiedName, userSpecifiedSinkName, userSpecifiedCheckpointLocation, "
            "useTempCheckpointLocation, recoverFromCheckpointLocation, sink, outputMode, "
            "hadoopConf, trigger, inputQuery, catalogAndIdent, catalogTable"
        ),
    ),
    "WriteToStream": InternalClass(
        f"{CATALYST}.streaming.WriteToStream",
        "Spark's checks of a query",
        methods="inputQuery() sink()",
    ),
    "QueryCompilationErrors": InternalClass(
        f"{SQL}.errors.QueryCompilationErrors", "Spark's own messages for mistakes in a query"
    ),
    # Listeners and their events
    "QueryManager": InternalClass(
        f"{SQL}.classic.StreamingQueryManager",
        "listeners",
        methods="postListenerEvent(event) stateStoreCoordinator()",
    ),
    "QueryStartedEvent": InternalClass(
        f"{SQL}.streaming.StreamingQueryListener$QueryStartedEvent",
        "listeners",
        new="id, runId, name, timestamp",
    ),
    "QueryProgressEvent": InternalClass(
        f"{SQL}.streaming.StreamingQueryListener$QueryProgressEvent",
        "listeners",
        new="progress",
    ),
    "QueryProgress": InternalClass(
        f"{SQL}.streaming.StreamingQueryProgress",
        "listeners",
        new=(
            "id, runId, name, timestamp, batchId, batchDuration, durationMs, eventTime, "
            "stateOperators, sources, sink, observedMetrics"
        ),
    ),
    "QueryIdleEvent": InternalClass(
        f"{SQL}.streaming.StreamingQueryListener$QueryIdleEvent",
        "listeners",
        new="id, runId, timestamp",
    ),
    "QueryTerminatedEvent": InternalClass(
        f"{SQL}.streaming.StreamingQueryListener$QueryTerminatedEvent",
        "listeners",
        new="id, runId, exception, errorClassOnException",
    ),
    # Metrics
    "MetricsSystem": InternalClass("org.apache.spark.metrics.MetricsSystem", "gauges of a query"),
    "MetricsSource": InternalClass("org.apache.spark.metrics.source.Source", "gauges of a query"),
    "BroadcastManager": InternalClass(
        "org.apache.spark.broadcast.BroadcastManager", "broadcasts of the Hadoop configuration"
    ),
    "BroadcastFactory": InternalClass(
        "org.apache.spark.broadcast.BroadcastFactory", "broadcasts of the Hadoop configuration"
    ),
    "SerializableConfiguration": InternalClass(
        "org.apache.spark.util.SerializableConfiguration", "broadcasts of the Hadoop configuration"
    ),
    # Checkpoint files
    "CheckpointFileManager": InternalClass(
        f"{STREAMING}.checkpointing.CheckpointFileManager",
        "checkpoints that are not local",
        methods=(
            "create(path, hadoopConf) createAtomic(path, overwriteIfPossible) open(path) "
            "exists(path) list(path) mkdirs(path) delete(path)"
        ),
    ),
    "FileSystemBasedCheckpointFileManager": InternalClass(
        f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
        "the state files of local checkpoints",
    ),
}
