"""Creates the sink for the format and options of a writer, as Spark's DataStreamWriter does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter as PySparkWriter

from penstock.connectors import PythonSink
from penstock.spark.jvm.failures import compilation_error
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.pyspark_api import wrap_function
from penstock.spark.sinks.batch_sinks import (
    BatchFunction,
    PythonBatchSink,
    SparkSink,
    V1Sink,
    V2Sink,
)
from penstock.spark.sinks.many_sinks import ManySinks, SinkSpec
from penstock.spark.sinks.new_table import CLUSTERING_KEY, NewTable, create_table

_VIEWS = ("VIEW", "METRIC_VIEW")
_TEMPORARY_CHECKPOINT = ("memory", "foreach", "foreachBatch", "console", "noop")


@dataclass(frozen=True)
class SinkRequest:
    """The output settings of a writer: format, options, mode, partitioning, function or sinks."""

    format: str
    output_mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    partition_columns: Sequence[str] | None = None
    clustering_columns: Sequence[str] | None = None
    foreach: Any = None
    batch_function: BatchFunction | PythonSink | None = None
    batch_function_name: str | None = None
    name: str | None = None
    many: Sequence[SinkSpec] = ()

    @property
    def functions(self) -> Sequence[BatchFunction | PythonSink]:
        """The functions and the sinks written in Python that get each batch."""
        if self.batch_function is not None:
            return [self.batch_function]
        return [spec.function for spec in self.many]

    def option(self, name: str) -> str | None:
        """The value of an option; names are case-insensitive."""
        for key, value in self.options.items():
            if key.lower() == name.lower():
                return value
        return None


@dataclass(frozen=True)
class SinkChoice:
    """A sink, and the facts about it that the start needs."""

    sink: SparkSink
    options: Mapping[str, str]
    may_use_temporary_checkpoint: bool
    recovers_from_checkpoint: bool = True
    catalog_and_ident: Any | None = None
    catalog_table: Any | None = None
    memory_table: Any | None = None


class SinkFactory:
    """Creates the sink of one streaming DataFrame."""

    def __init__(self, df: DataFrame, request: SinkRequest) -> None:
        self._df = df
        self._spark = df.sparkSession
        self.jsession = df._jdf.sparkSession()
        self._jvm = Jvm.of(self._spark)
        self._request = request
        self._temporary = request.format in _TEMPORARY_CHECKPOINT

    @cached_property
    def output_mode(self) -> Any:
        """Spark's OutputMode for the requested one."""
        modes = self._jvm.cls("org.apache.spark.sql.streaming.OutputMode")
        return getattr(modes, self._request.output_mode.capitalize())()

    def create(self, path: str | None = None, catalog_table: Any | None = None) -> SinkChoice:
        """The sink for a format."""
        request = self._request
        if request.format.lower() == "hive":
            raise self._error("cannotOperateOnHiveDataSourceFilesError", "write")
        if path is not None and catalog_table is None and request.option("path") is not None:
            self._refuse_two_paths()
        if request.many:
            self._refuse_partitioning("to")
            many = ManySinks(self._spark, request.many)
            return SinkChoice(many, request.options, self._temporary)
        if request.batch_function is not None:
            self._refuse_partitioning("foreachBatch")
            sink: SparkSink = PythonBatchSink(
                self._spark, request.batch_function, request.batch_function_name
            )
            return SinkChoice(sink, request.options, self._temporary)
        if request.foreach is not None:
            self._refuse_partitioning("foreach")
            return SinkChoice(self._foreach(), request.options, self._temporary)
        if request.format == "memory":
            self._refuse_partitioning("memory")
            return self._memory()
        return self._by_format(path, catalog_table)

    def create_for_table(self, table_name: str) -> SinkChoice:
        """The sink for a catalog table, which is created if it does not exist."""
        catalog, identifier, table = self._load_or_create_table(table_name)
        if self._is(table, "org.apache.spark.sql.connector.catalog.SupportsWrite") and (
            self._supports_streaming_write(table)
        ):
            pair = self._jvm.cls("scala.Tuple2")(catalog, identifier)
            sink = V2Sink(self._jvm, table, pair)
            return SinkChoice(sink, self._request.options, self._temporary, catalog_and_ident=pair)
        if self._is(table, "org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback") or (
            self._is(table, "org.apache.spark.sql.connector.catalog.V1Table")
        ):
            return self._v1_table(table_name, table.v1Table())
        raise self._error("tableNotSupportStreamingWriteError", table_name, table)

    # The kinds of sink.

    def _foreach(self) -> SparkSink:
        jvm = self._jvm
        function = PySparkWriter._construct_foreach_function(self._request.foreach)
        serializer = AutoBatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]
        wrapped = wrap_function(self._spark.sparkContext, function, serializer)
        writer = jvm.new("PythonForeachWriter", func=wrapped, schema=self._df._jdf.schema())
        encoder = self._df._jdf.exprEnc()
        return V2Sink(jvm, jvm.module("ForeachWriterTable").apply(writer, encoder))

    def _memory(self) -> SinkChoice:
        if self._request.option("queryName") is None:
            raise self._error("queryNameNotSpecifiedForMemorySinkError")
        jvm = self._jvm
        jsink = jvm.new("MemorySink")
        plan = jvm.module("MemoryPlan").apply(jsink, self._schema_attributes())
        table = jvm.module("ClassicDataset").ofRows(self.jsession, plan)
        return SinkChoice(
            V2Sink(jvm, jsink),
            self._request.options,
            self._temporary,
            recovers_from_checkpoint=self._request.output_mode.lower() == "complete",
            memory_table=table,
        )

    def _by_format(self, path: str | None, catalog_table: Any | None) -> SinkChoice:
        options = dict(self._request.options)
        if path is not None:
            options = {k: v for k, v in options.items() if k.lower() != "path"} | {"path": path}
        table = self._jvm.java.start.tableOf(
            self.jsession,
            self._request.format,
            self._jvm.scala_map(options),
            self._df._jdf.schema(),
        )
        sink = V2Sink(self._jvm, table) if table is not None else self._v1(options, catalog_table)
        return SinkChoice(sink, options, self._temporary, catalog_table=catalog_table)

    def _v1(self, options: Mapping[str, str], catalog_table: Any | None) -> SparkSink:
        jvm = self._jvm
        cleaned = {k: v for k, v in options.items() if k != CLUSTERING_KEY}
        if self._request.clustering_columns is not None:
            columns = self._normalize(self._request.clustering_columns, "Clustering")
            encode = jvm.cls("DataSourceUtils")
            cleaned[CLUSTERING_KEY] = encode.encodePartitioningColumns(jvm.seq(columns))
        partitions = self._normalize(self._request.partition_columns or (), "Partition")
        source = jvm.new(
            "DataSource",
            sparkSession=self.jsession,
            className=self._request.format,
            paths=jvm.empty_seq,
            userSpecifiedSchema=jvm.none,
            partitionColumns=jvm.seq(partitions),
            bucketSpec=jvm.none,
            options=jvm.scala_map(cleaned),
            catalogTable=jvm.none,
            userSpecifiedStreamingSourceName=jvm.none,
        )
        schema = self._df._jdf.schema()
        sink = jvm.call(
            source, "DataSource", "createSink", outputMode=self.output_mode, writeSchema=schema
        )
        return V1Sink(self._df.sparkSession, sink, catalog_table)

    # Tables.

    def _load_or_create_table(self, table_name: str) -> tuple[Any, Any, Any]:
        state = self.jsession.sessionState()
        parts = state.sqlParser().parseMultipartIdentifier(table_name)
        if state.catalog().isTempView(parts):
            raise self._error("tempViewNotSupportStreamingWriteError", table_name)
        resolved = state.analyzer().CatalogAndIdentifier().unapply(parts).get()
        catalog, identifier = resolved._1(), resolved._2()
        if not catalog.tableExists(identifier):
            self._create_table(parts)
        return catalog, identifier, catalog.loadTable(identifier)

    def _create_table(self, name_parts: Any) -> None:
        """Create it with the columns of the stream, all of them nullable."""
        request = self._request
        clustering = request.clustering_columns
        table = NewTable(
            name_parts,
            schema=self._df._jdf.schema(),
            provider=request.format,
            location=request.option("path"),
            partition_columns=request.partition_columns or (),
            clustering_columns=(
                None if clustering is None else self._normalize(clustering, "Clustering")
            ),
        )
        create_table(self._jvm, self.jsession, table)

    def _v1_table(self, table_name: str, table: Any) -> SinkChoice:
        if str(table.tableType().name()) in _VIEWS:
            raise self._error("streamingIntoViewNotSupportedError", table_name)
        provider = str(table.provider().get())
        if self._request.format != provider:
            raise self._error(
                "inputSourceDiffersFromDataSourceProviderError",
                self._request.format,
                table_name,
                table,
            )
        path = self._jvm.cls("org.apache.hadoop.fs.Path")(table.location()).toString()
        factory = SinkFactory(self._df, replace(self._request, format=provider))
        return factory.create(path, catalog_table=table)

    # Schema, columns and errors.

    def _schema_attributes(self) -> Any:
        return self._jvm.module("DataTypeUtils").toAttributes(self._df._jdf.schema())

    def _supports_streaming_write(self, table: Any) -> bool:
        capability = self._jvm.cls("org.apache.spark.sql.connector.catalog.TableCapability")
        return bool(table.capabilities().contains(capability.STREAMING_WRITE))

    def _normalize(self, columns: Sequence[str], kind: str) -> list[str]:
        """The names in the DataFrame's spelling; AnalysisException for an unknown column."""
        resolver = self.jsession.sessionState().analyzer().resolver()
        normalized = []
        for column in columns:
            known = next((c for c in self._df.columns if resolver.apply(c, column)), None)
            if known is None:
                known_columns = self._jvm.seq(self._df.columns)
                raise self._error(
                    "columnNotFoundInExistingColumnsError", kind, column, known_columns
                )
            normalized.append(known)
        return normalized

    def _refuse_partitioning(self, operation: str) -> None:
        if self._request.partition_columns is not None:
            raise self._error("operationNotSupportPartitioningError", operation)

    def _refuse_two_paths(self) -> None:
        if not self.jsession.sessionState().conf().legacyPathOptionBehavior():
            raise self._error("setPathOptionAndCallWithPathParameterError", "start")

    def _error(self, name: str, *arguments: Any) -> Exception:
        return compilation_error(self._jvm, name, *arguments)

    def _is(self, obj: Any, class_name: str) -> bool:
        return self._jvm.is_instance(obj, class_name)
