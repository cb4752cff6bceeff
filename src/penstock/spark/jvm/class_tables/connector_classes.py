"""Spark's classes for sources and sinks. See `internal_classes`."""

from __future__ import annotations

from penstock.spark.jvm.class_tables.spark_packages import CATALYST, SQL, STREAMING
from penstock.spark.jvm.internals import InternalClass

_NEW_TABLES = "tables that toTable creates"

CONNECTOR_CLASSES: dict[str, InternalClass] = {
    # Sources and sinks
    "DataSource": InternalClass(
        f"{SQL}.execution.datasources.DataSource",
        "V1 sources, sinks",
        new=(
            "sparkSession, className, paths, userSpecifiedSchema, partitionColumns, bucketSpec, "
            "options, catalogTable, userSpecifiedStreamingSourceName"
        ),
        methods="createSink(outputMode, writeSchema)",
    ),
    "FileFormat": InternalClass(f"{SQL}.execution.datasources.FileFormat", "file sources"),
    "CaseInsensitiveMap": InternalClass(f"{SQL}.catalyst.util.CaseInsensitiveMap", "file sources"),
    "FileDataSourceV2": InternalClass(
        f"{SQL}.execution.datasources.v2.FileDataSourceV2", "choosing a sink's API"
    ),
    "PythonDataSourceV2": InternalClass(
        f"{SQL}.execution.datasources.v2.python.PythonDataSourceV2", "Python data sources"
    ),
    "DataSourceV2Utils": InternalClass(
        f"{SQL}.execution.datasources.v2.DataSourceV2Utils", "V2 sinks"
    ),
    "DataSourceUtils": InternalClass(
        f"{SQL}.execution.datasources.DataSourceUtils",
        "partitioned sinks",
        methods="encodePartitioningColumns(columns)",
    ),
    # Sources
    "Source": InternalClass(f"{STREAMING}.Source", "V1 sources"),
    "V1Offset": InternalClass(f"{STREAMING}.Offset", "V1 sources"),
    "SerializedOffset": InternalClass(
        f"{STREAMING}.runtime.SerializedOffset",
        "V1 offsets",
        new="json",
    ),
    "MarkerStream": InternalClass(
        f"{STREAMING}.sources.RatePerMicroBatchStream",
        "rows read per source",
        new="rowsPerBatch, numPartitions, startTimestamp, advanceMsPerBatch, options",
    ),
    "FileStreamSource": InternalClass(
        f"{STREAMING}.runtime.FileStreamSource",
        "file sources",
        new=(
            "sparkSession, path, fileFormatClassName, schema, partitionColumns, metadataPath, "
            "options"
        ),
    ),
    "FileStreamSourceLog": InternalClass(
        f"{STREAMING}.runtime.FileStreamSourceLog",
        "bisecting a batch of files",
        new="metadataLogVersion, sparkSession, path",
        methods="add(batchId, logs) get(startId, endId)",
    ),
    "CompactibleFileStreamLog": InternalClass(
        f"{STREAMING}.runtime.CompactibleFileStreamLog", "the logs of file sources and sinks"
    ),
    "FileEntry": InternalClass(
        f"{STREAMING}.runtime.FileStreamSource$FileEntry",
        "bisecting a batch of files",
        new="path, timestamp, batchId",
        methods="path() timestamp()",
    ),
    # Sinks
    "V1Sink": InternalClass(f"{STREAMING}.Sink", "V1 sinks"),
    "MemorySink": InternalClass(
        f"{STREAMING}.sources.MemorySink",
        "the memory sink",
        new="",
    ),
    "MemoryPlan": InternalClass(
        f"{STREAMING}.sources.MemoryPlan",
        "the memory sink",
        methods="apply(sink, output)",
    ),
    "ForeachWriterTable": InternalClass(
        f"{STREAMING}.sources.ForeachWriterTable",
        "foreach",
        methods="apply(writer, encoder)",
    ),
    "ForeachBatchSink": InternalClass(
        f"{STREAMING}.sources.ForeachBatchSink",
        "foreachBatch",
        new="batchWriter, encoder",
    ),
    "FileStreamSink": InternalClass(f"{STREAMING}.sinks.FileStreamSink", "the log of a file sink"),
    "PythonForeachWriter": InternalClass(
        f"{SQL}.execution.python.streaming.PythonForeachWriter",
        "foreach",
        new="func, schema",
    ),
    "JDBCOptions": InternalClass(f"{SQL}.execution.datasources.jdbc.JDBCOptions", "the JDBC sink"),
    "DataSourceV2Relation": InternalClass(
        f"{SQL}.execution.datasources.v2.DataSourceV2Relation",
        "V2 sinks",
        methods="create(table, catalog, identifier)",
    ),
    "WriteToMicroBatchDataSource": InternalClass(
        f"{STREAMING}.sources.WriteToMicroBatchDataSource",
        "V2 sinks",
        new="relation, query, queryId, writeOptions, outputMode, batchId",
    ),
    "WriteToMicroBatchDataSourceV1": InternalClass(
        f"{STREAMING}.sources.WriteToMicroBatchDataSourceV1",
        "V1 sinks",
        new="catalogTable, sink, query, queryId, writeOptions, outputMode, batchId",
    ),
    "WriteToDataSourceV2Exec": InternalClass(
        f"{SQL}.execution.datasources.v2.WriteToDataSourceV2Exec", "rows a V2 sink wrote"
    ),
    "StreamWriterCommitProgress": InternalClass(
        f"{SQL}.execution.datasources.v2.StreamWriterCommitProgress", "rows a V2 sink wrote"
    ),
    # New tables
    "CreateTable": InternalClass(
        f"{CATALYST}.plans.logical.CreateTable",
        _NEW_TABLES,
        new="name, columns, partitioning, tableSpec, ignoreIfExists",
    ),
    "UnresolvedIdentifier": InternalClass(
        f"{CATALYST}.analysis.UnresolvedIdentifier", _NEW_TABLES, new="nameParts, allowTemp"
    ),
    "UnresolvedTableSpec": InternalClass(
        f"{CATALYST}.plans.logical.UnresolvedTableSpec",
        _NEW_TABLES,
        new=(
            "properties, provider, optionExpression, location, comment, collation, serde, "
            "external, constraints"
        ),
    ),
    "OptionList": InternalClass(f"{CATALYST}.plans.logical.OptionList", _NEW_TABLES, new="options"),
    "ColumnDefinition": InternalClass(
        f"{CATALYST}.plans.logical.ColumnDefinition",
        _NEW_TABLES,
        methods="fromV1Column(col, parser)",
    ),
    "CatalogV2Implicits": InternalClass(
        f"{SQL}.connector.catalog.CatalogV2Implicits",
        _NEW_TABLES,
        methods="PartitionTypeHelper(partitionColumns)",
    ),
    "PartitionTypeHelper": InternalClass(
        f"{SQL}.connector.catalog.CatalogV2Implicits$PartitionTypeHelper",
        _NEW_TABLES,
        methods="asTransforms()",
    ),
    "FieldReference": InternalClass(
        f"{SQL}.connector.expressions.FieldReference", _NEW_TABLES, methods="apply(column)"
    ),
    "ClusterByTransform": InternalClass(
        f"{SQL}.connector.expressions.ClusterByTransform", _NEW_TABLES, new="columnNames"
    ),
}
