"""The streaming leaves of a query's plan: bound to sources once, replaced by data every batch."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

from pyspark.sql import SparkSession

from penstock.engine.data_stream import DataStream
from penstock.errors import InvalidBatchError, UnsupportedError
from penstock.spark.batch_functions import BatchFunctions
from penstock.spark.gateway import Jvm
from penstock.spark.plan_advice import warn_of_misspelt_source_options
from penstock.spark.python_source import PythonSourceStream, find_registered
from penstock.spark.session import SparkStreamSession
from penstock.spark.sources import JvmMicroBatchStream, JvmSource, V1Data, V2Range

_logger = logging.getLogger(__name__)

_MICRO_BATCH_READ = "MICRO_BATCH_READ"
_DISABLED_READERS = "spark.sql.streaming.disabledV2MicroBatchReaders"


class Leaf(ABC):
    """A leaf of the analyzed plan that stands for a stream."""

    def __init__(self, jvm: Jvm, node: Any, source: DataStream, name: str | None) -> None:
        self._jvm = jvm
        self.node = node
        self.source = source
        self.name = name
        # Known to give no rows, so Spark need not track where they would come from.
        self._empty = jvm.cls("LocalRelation")(node.output(), jvm.empty_seq, True, jvm.none)

    def replace_in(self, replacements: Any, data: object | None) -> None:
        """Put into a Java map, for the leaf, what stands in its place in a batch.

        None is no new data. It is the same map every time.
        """
        if data is None:
            replacements.put(self.node, self._empty)
        else:
            self._put_data(replacements, data)

    @abstractmethod
    def _put_data(self, replacements: Any, data: object) -> None: ...


class V2Leaf(Leaf):
    """A leaf that reads a V2 stream: it scans between two offsets."""

    def __init__(self, jvm: Jvm, node: Any, source: DataStream, name: str | None, scan: Any):
        super().__init__(jvm, node, source, name)
        self._scan = scan
        self._put: Any = None

    def _put_data(self, replacements: Any, data: object) -> None:
        assert isinstance(data, V2Range)
        if self._put is None:
            scan = self._scan
            parts = (scan.relation(), scan.scan(), scan.output(), scan.stream())
            self._put = BatchFunctions(self._jvm).put_scan(replacements, self.node, scan, parts)
        self._put.apply(data.start, data.end)


class V1Leaf(Leaf):
    """A leaf that a V1 source replaces by a plan, whose columns are renamed to the leaf's."""

    def __init__(
        self, jvm: Jvm, node: Any, source: JvmSource | PythonSourceStream, name: str | None
    ) -> None:
        super().__init__(jvm, node, source, name)
        self._stream = source.jstream
        unapply = jvm.module("FileSourceMetadataAttribute").unapply
        self._has_file_metadata = any(
            unapply(column).isDefined() for column in jvm.to_list(node.output())
        )
        self._catalog_table = _catalog_table(jvm, node)
        self._put: Any = None

    def _put_data(self, replacements: Any, data: object) -> None:
        assert isinstance(data, V1Data)
        plan = data.plan
        if self._has_file_metadata or self._catalog_table is not None:
            plan = self._adapt(plan)
        if self._put is None:
            self._put = BatchFunctions(self._jvm).put_plan(replacements, self.node, self._stream)
        other_columns = self._put.apply(plan)
        if other_columns is not None:
            raise InvalidBatchError(
                f"Invalid batch: {self.node.output().mkString(',')} != {other_columns}"
            )

    def _adapt(self, plan: Any) -> Any:
        """Give file relations their metadata columns and their table, where the query has them."""
        jvm = self._jvm
        children = jvm.to_list(plan.children())
        if children:
            plan = plan.withNewChildren(jvm.seq([self._adapt(child) for child in children]))
        if jvm.is_instance(plan, "LogicalRelation"):
            if self._has_file_metadata:
                plan = plan.withMetadataColumns()
            if self._catalog_table is not None and not plan.catalogTable().isDefined():
                table = jvm.some(self._catalog_table)
                plan = plan.copy(
                    plan.relation(), plan.output(), table, plan.isStreaming(), plan.stream()
                )
        elif jvm.is_instance(plan, "Project") and self._has_file_metadata:
            present = plan.outputSet()
            missing = [c for c in jvm.to_list(plan.metadataOutput()) if not present.contains(c)]
            if missing:
                columns = jvm.to_list(plan.projectList())
                plan = jvm.cls("Project")(jvm.seq([*columns, *missing]), plan.child())
        return plan


def bind_leaves(session: SparkStreamSession, analyzed: Any, checkpoint_root: str) -> list[Leaf]:
    """Create the sources of a plan: one leaf for each streaming relation, in plan order.

    Relations that are equal share one source, as the two sides of a union of a stream with itself
    do. Sources get the metadata path `sources/<n>` below the checkpoint, or one by their name.
    """
    return _Binder(session, checkpoint_root).bind(analyzed)


def source_options(jvm: Jvm, analyzed: Any) -> list[dict[str, str]]:
    """The options that the sources of a plan were given, one mapping for each source."""
    found = []
    for node in _streaming_relations(jvm, analyzed):
        if jvm.is_instance(node, "StreamingRelation"):
            pairs = jvm.to_list(node.dataSource().options().toSeq())
            found.append({pair._1(): pair._2() for pair in pairs})
        else:
            found.append(dict(node.extraOptions().asCaseSensitiveMap()))
    return found


def _streaming_relations(jvm: Jvm, analyzed: Any) -> list[Any]:
    kinds = ("StreamingRelation", "StreamingRelationV2")
    leaves = jvm.to_list(analyzed.collectLeaves())
    return [leaf for leaf in leaves if any(jvm.is_instance(leaf, kind) for kind in kinds)]


class _Binder:
    def __init__(self, session: SparkStreamSession, checkpoint_root: str) -> None:
        self._session = session
        self._jvm = session.jvm
        self._root = checkpoint_root
        self._next_source_id = 0
        self._disabled = session.get_conf(_DISABLED_READERS).split(",")

    def bind(self, analyzed: Any) -> list[Leaf]:
        leaves: list[Leaf] = []
        for node in _streaming_relations(self._jvm, analyzed):
            known = next((leaf for leaf in leaves if leaf.node.equals(node)), None)
            if known is None:
                warn_of_misspelt_source_options(self._jvm, node)
            leaves.append(known or self._bind_leaf(node))
        return leaves

    def _bind_leaf(self, node: Any) -> Leaf:
        identifying_name = node.sourceIdentifyingName()
        name = self._jvm.from_option(identifying_name.nameOpt())
        if self._jvm.is_instance(node, "StreamingRelation"):
            python_source = find_registered(self._jvm, node.sourceName())
            path = self._metadata_path(name)
            if python_source is not None:
                _logger.info("Using Source [%s] written in Python", python_source)
                stream_session = SparkSession(
                    self._session.spark.sparkContext, self._session.jsession
                )
                stream = PythonSourceStream(stream_session, python_source, node.schema())
                return V1Leaf(self._jvm, node, stream, name)
            return self._bind_v1(node, node, name, path, "DataSourceV1")
        return self._bind_v2(node, identifying_name, name)

    def _bind_v1(self, node: Any, relation: Any, name: str | None, path: str, api: str) -> Leaf:
        data_source = self._in_query_session(relation.dataSource())
        if self._jvm.java_class("FileFormat").isAssignableFrom(data_source.providingClass()):
            path = self._session.direct(path)
        source = JvmSource(self._jvm, data_source.createSource(path))
        description = (
            f"[{relation.dataSource().toString()}]" if api == "DataSourceV1" else _provider(node)
        )
        _logger.info(
            "Using Source [%s] from %s named '%s' %s", source, api, node.sourceName(), description
        )
        return V1Leaf(self._jvm, node, source, name)

    def _in_query_session(self, data_source: Any) -> Any:
        """The data source with the query's own session, whose file settings are its log's too."""
        return data_source.copy(
            self._session.jsession,
            data_source.className(),
            data_source.paths(),
            data_source.userSpecifiedSchema(),
            data_source.partitionColumns(),
            data_source.bucketSpec(),
            data_source.options(),
            data_source.catalogTable(),
            data_source.userSpecifiedStreamingSourceName(),
        )

    def _bind_v2(self, node: Any, identifying_name: Any, name: str | None) -> Leaf:
        table = node.table()
        provider = self._jvm.from_option(node.source())
        disabled = provider is not None and provider.getClass().getCanonicalName() in self._disabled
        can_read = table.capabilities().contains(
            getattr(
                self._jvm.cls("org.apache.spark.sql.connector.catalog.TableCapability"),
                _MICRO_BATCH_READ,
            )
        )
        if can_read and not disabled:
            return self._bind_micro_batch_stream(node, table, identifying_name, name)
        v1_relation = self._jvm.from_option(node.v1Relation())
        if v1_relation is None:
            raise UnsupportedError(
                f"The data source {node.sourceName()} does not support microbatch processing."
                + (f" It is disabled by {_DISABLED_READERS}." if disabled else "")
            )
        path = self._metadata_path(name)
        return self._bind_v1(node, v1_relation, name, path, "DataSourceV2")

    def _bind_micro_batch_stream(
        self, node: Any, table: Any, identifying_name: Any, name: str | None
    ) -> Leaf:
        jvm = self._jvm
        path = self._metadata_path(name)
        if _logger.isEnabledFor(logging.INFO):
            _logger.info(
                "Reading table [%s] from DataSourceV2 named '%s' %s",
                table.toString(),
                node.sourceName(),
                _provider(node),
            )
        builder = table.newScanBuilder(node.extraOptions())
        pushdown = "org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns"
        if jvm.is_instance(builder, pushdown):
            builder.pruneColumns(node.schema())
        scan = builder.build()
        stream = scan.toMicroBatchStream(path)
        relation = jvm.cls("StreamingDataSourceV2Relation")(
            table,
            node.output(),
            node.catalog(),
            node.identifier(),
            node.extraOptions(),
            path,
            jvm.none,
            identifying_name,
        )
        scan_relation = jvm.cls("StreamingDataSourceV2ScanRelation")(
            relation, scan, node.output(), stream, jvm.none, jvm.none
        )
        return V2Leaf(jvm, node, JvmMicroBatchStream(jvm, stream), name, scan_relation)

    def _metadata_path(self, name: str | None) -> str:
        """Where a source keeps what is its own: by its name, or by the next number."""
        if name is not None:
            return f"{self._root}/sources/{name}"
        path = f"{self._root}/sources/{self._next_source_id}"
        self._next_source_id += 1
        return path


def _provider(node: Any) -> str:
    source = node.source()
    return f"[{source.get().toString()}]" if source.isDefined() else ""


def _catalog_table(jvm: Jvm, node: Any) -> Any | None:
    """The table a V1 relation reads, where it reads one by name."""
    if not jvm.is_instance(node, "StreamingRelation"):
        return None
    return jvm.from_option(node.dataSource().catalogTable())
