"""The streaming leaves of a query's plan, bound to sources once; each batch sets their data."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from penstock.engine.batch_parts import Pieces
from penstock.engine.data_stream import DataStream
from penstock.errors import InvalidBatchError, UnsupportedError
from penstock.spark.jvm.calls import send
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import by_turns, records_of
from penstock.spark.plan.plan_advice import warn_of_misspelt_source_options
from penstock.spark.plan.plan_description import LeafDescription, PlanDescription
from penstock.spark.session.stream_session import SparkStreamSession
from penstock.spark.sources.file_source import JvmFileSource
from penstock.spark.sources.python_source import PythonSourceStream, find_registered
from penstock.spark.sources.spark_sources import JvmMicroBatchStream, JvmSource, V1Data, V2Range

_logger = logging.getLogger(__name__)

_DISABLED_READERS = "spark.sql.streaming.disabledV2MicroBatchReaders"


class Leaf(ABC):
    """A streaming relation in the analyzed plan.

    `jplan` is the StreamingPlan inside the JVM, which has the replacement of each leaf.
    """

    def __init__(self, jplan: Any, leaf: LeafDescription, source: DataStream) -> None:
        self._jplan = jplan
        self._index = leaf.index
        self.source = source
        self.name = leaf.name

    def set_data(self, data: object | None) -> None:
        """Set the data of the leaf for the next batch; None if it has no new data."""
        if data is None:
            send(self._jplan, "setEmpty", self._index)
        else:
            self._set(data.data if isinstance(data, Pieces) else (data,))

    @property
    def jdata(self) -> Any:
        """The plan that replaces the leaf, as last set by `set_data`."""
        return self._jplan.data(self._index)

    @abstractmethod
    def _set(self, pieces: Sequence[object]) -> None:
        """Set the data; several pieces if parts are left out of a batch."""


class V2Leaf(Leaf):
    """A leaf that reads a V2 stream with a scan between two offsets."""

    def _set(self, pieces: Sequence[object]) -> None:
        ranges = [piece for piece in pieces if isinstance(piece, V2Range)]
        assert len(ranges) == len(pieces)
        if len(ranges) == 1:
            send(self._jplan, "setScan", self._index, ranges[0].start, ranges[0].end)
        else:
            starts, ends = [r.start for r in ranges], [r.end for r in ranges]
            self._jplan.setScans(self._index, starts, ends)


class V1Leaf(Leaf):
    """A leaf replaced by the plan of a V1 source, with the columns aliased to the leaf's."""

    def __init__(
        self, jvm: Jvm, jplan: Any, leaf: LeafDescription, source: JvmSource | PythonSourceStream
    ) -> None:
        super().__init__(jplan, leaf, source)
        self._jvm = jvm
        self._stream = source.jstream
        self._has_file_metadata = leaf.has_file_metadata
        self._catalog_table = None
        if leaf.reads_table:
            self._catalog_table = jplan.leaf(self._index).dataSource().catalogTable().get()

    def _set(self, pieces: Sequence[object]) -> None:
        plans = [piece.plan for piece in pieces if isinstance(piece, V1Data)]
        assert len(plans) == len(pieces)
        if self._has_file_metadata or self._catalog_table is not None:
            plans = [self._adapt(plan) for plan in plans]
        plan = plans[0] if len(plans) == 1 else self._jplan.union(plans)
        other_columns = self._jplan.setPlan(self._index, plan, self._stream)
        if other_columns is not None:
            columns = self._jplan.leaf(self._index).output().mkString(",")
            raise InvalidBatchError(f"Invalid batch: {columns} != {other_columns}")

    def _adapt(self, plan: Any) -> Any:
        """Add metadata columns and the catalog table to file relations, if the query has them."""
        jvm = self._jvm
        children = jvm.to_list(plan.children())
        if children:
            plan = plan.withNewChildren(jvm.seq([self._adapt(child) for child in children]))
        if jvm.is_instance(plan, "LogicalRelation"):
            if self._has_file_metadata:
                plan = plan.withMetadataColumns()
            if self._catalog_table is not None and not plan.catalogTable().isDefined():
                plan = self._with_table(plan, jvm.some(self._catalog_table))
        elif jvm.is_instance(plan, "Project") and self._has_file_metadata:
            present = plan.outputSet()
            missing = [c for c in jvm.to_list(plan.metadataOutput()) if not present.contains(c)]
            if missing:
                columns = jvm.to_list(plan.projectList())
                plan = jvm.new(
                    "Project", projectList=jvm.seq([*columns, *missing]), child=plan.child()
                )
        return plan

    def _with_table(self, relation: Any, table: Any) -> Any:
        knows_stream = self._jvm.line.has("StreamSourceAwareLogicalPlan")
        return self._jvm.call(
            relation,
            "LogicalRelation",
            "copy",
            relation=relation.relation(),
            output=relation.output(),
            catalogTable=table,
            isStreaming=relation.isStreaming(),
            stream=relation.stream() if knows_stream else None,
        )


def bind_leaves(
    session: SparkStreamSession, jplan: Any, description: PlanDescription, checkpoint_root: str
) -> list[Leaf]:
    """Create the sources of a plan: one leaf for each streaming relation, in plan order.

    Relations that are equal share one source, as the two sides of a union of a stream with itself
    do. The metadata path of a source is `sources/<n>` or `sources/<name>` in the checkpoint.
    """
    return _Binder(session, jplan, checkpoint_root).bind(description)


def source_options(jvm: Jvm, analyzed: Any) -> list[dict[str, str]]:
    """The options of the sources of a plan, one mapping for each source."""
    answer = jvm.java.start.sourceOptions(analyzed)
    return [by_turns(fields) for fields in records_of(answer)]


class _Binder:
    def __init__(self, session: SparkStreamSession, jplan: Any, checkpoint_root: str) -> None:
        self._session = session
        self._jvm = session.jvm
        self._jplan = jplan
        self._root = checkpoint_root
        self._next_source_id = 0
        disabled = session.get_conf(_DISABLED_READERS).split(",")
        self._disabled = {name.strip() for name in disabled}

    def bind(self, description: PlanDescription) -> list[Leaf]:
        leaves: list[Leaf] = []
        for number, leaf in enumerate(description.leaves):
            is_first = leaf.index == number
            if is_first:
                warn_of_misspelt_source_options(leaf.format, leaf.options)
            leaves.append(self._bind_leaf(leaf) if is_first else leaves[leaf.index])
        return leaves

    def _bind_leaf(self, leaf: LeafDescription) -> Leaf:
        if leaf.is_v2:
            return self._bind_v2(leaf)
        python_source = find_registered(self._jvm, leaf.source_name)
        path = self._metadata_path(leaf.name)
        if python_source is None:
            return self._bind_v1(leaf, path, "DataSourceV1")
        _logger.info("Using Source [%s] written in Python", python_source)
        stream_session = SparkSession(self._session.spark.sparkContext, self._session.jsession)
        schema = self._jplan.leaf(leaf.index).schema()
        stream = PythonSourceStream(stream_session, python_source, schema)
        return V1Leaf(self._jvm, self._jplan, leaf, stream)

    def _bind_v1(self, leaf: LeafDescription, path: str, api: str) -> Leaf:
        session = self._session
        open_at = partial(self._jplan.openV1, leaf.index, session.jsession)
        source: JvmSource
        if leaf.reads_files:
            source = JvmFileSource(session, session.direct(path), leaf.options, open_at)
        else:
            source = JvmSource(self._jvm, open_at(path), leaf.options)
        _logger.info(
            "Using Source [%s] from %s named '%s' %s",
            source,
            api,
            leaf.source_name,
            leaf.provider,
        )
        return V1Leaf(self._jvm, self._jplan, leaf, source)

    def _bind_v2(self, leaf: LeafDescription) -> Leaf:
        disabled = bool(leaf.provider) and leaf.provider_class in self._disabled
        if leaf.can_read_v2 and not disabled:
            path = self._metadata_path(leaf.name)
            _logger.info(
                "Reading table [%s] from DataSourceV2 named '%s' %s",
                leaf.table,
                leaf.source_name,
                leaf.provider,
            )
            jstream = self._jplan.openV2(leaf.index, path)
            stream = JvmMicroBatchStream(self._jvm, jstream, leaf.options)
            return V2Leaf(self._jplan, leaf, stream)
        if not leaf.has_v1_source:
            raise UnsupportedError(
                f"The data source {leaf.source_name} does not support microbatch processing."
                + (f" It is disabled by {_DISABLED_READERS}." if disabled else "")
            )
        return self._bind_v1(leaf, self._metadata_path(leaf.name), "DataSourceV2")

    def _metadata_path(self, name: str | None) -> str:
        """The metadata path of a source: by its name, or by the next number."""
        if name is not None:
            return f"{self._root}/sources/{name}"
        path = f"{self._root}/sources/{self._next_source_id}"
        self._next_source_id += 1
        return path
