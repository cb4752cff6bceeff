"""Adapts a PythonSource to the engine and to Spark's plan."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.connectors import PythonSource
from penstock.engine.data_stream import Source
from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.read_limit import ReadLimit
from penstock.errors import InvalidBatchError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.sources.spark_sources import V1Data, offset_value

_NAME_PREFIX = "penstock:"


def streaming_relation(session: SparkSession, source: PythonSource) -> DataFrame:
    """A streaming DataFrame whose leaf is `source`, which is registered under the leaf's name."""
    jvm = Jvm.of(session)
    name = f"{_NAME_PREFIX}{uuid.uuid4()}"
    # All columns are nullable, as with Spark's own sources: returned rows are not checked.
    schema = session.createDataFrame([], source.schema())._jdf.schema().asNullable()
    output = jvm.module("DataTypeUtils").toAttributes(schema)
    relation = jvm.new(
        "StreamingRelation",
        dataSource=_placeholder(jvm, session),
        sourceName=name,
        output=output,
        sourceIdentifyingName=jvm.module("Unassigned") if jvm.line.has("Unassigned") else None,
    )
    _sources_of(jvm)[name] = source
    dataset = jvm.module("ClassicDataset").ofRows(session._jsparkSession, relation)
    return DataFrame(dataset, session)


def find_registered(jvm: Jvm, source_name: str) -> PythonSource | None:
    """The source of a relation that `streaming_relation` created; None for any other relation."""
    return _sources_of(jvm).get(source_name)


def _sources_of(jvm: Jvm) -> dict[str, PythonSource]:
    """The sources by the name of their relation. Entries stay until the JVM ends.

    A plan in the JVM refers to its source by name, and Python cannot detect when the last such plan
    is garbage-collected.
    """
    sources: dict[str, PythonSource] = jvm.once("python sources", dict)
    return sources


def _placeholder(jvm: Jvm, session: SparkSession) -> Any:
    """The data source that StreamingRelation requires. It is never opened."""
    return jvm.new(
        "DataSource",
        sparkSession=session._jsparkSession,
        className="text",
        paths=jvm.empty_seq,
        userSpecifiedSchema=jvm.none,
        partitionColumns=jvm.empty_seq,
        bucketSpec=jvm.none,
        options=jvm.scala_map({}),
        catalogTable=jvm.none,
        userSpecifiedStreamingSourceName=jvm.none,
    )


class PythonSourceStream(Source):
    """A PythonSource as a V1 `Source` of the engine."""

    def __init__(self, session: SparkSession, source: PythonSource, jschema: Any) -> None:
        """`jschema` is the schema of the query's relation."""
        self._columns = jschema.catalogString()
        self._session = session
        self._source = source
        self._jvm = Jvm.of(session)
        # Spark counts the rows of a batch by stream object; this one represents our source.
        options = self._jvm.cls("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()
        self.jstream = self._jvm.new(
            "MarkerStream",
            rowsPerBatch=1,
            numPartitions=1,
            startTimestamp=0,
            advanceMsPerBatch=1,
            options=options,
        )

    def __str__(self) -> str:
        return str(self._source)

    @property
    def supports_admission_control(self) -> bool:
        return True

    @property
    def supports_trigger_available_now(self) -> bool:
        overridden = type(self._source).prepare_for_trigger_available_now
        return overridden is not PythonSource.prepare_for_trigger_available_now

    def prepare_for_trigger_available_now(self) -> None:
        self._source.prepare_for_trigger_available_now()

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        self._source.on_new_data(nudge)

    def default_read_limit(self) -> ReadLimit:
        return self._source.read_limit() or super().default_read_limit()

    def get_offset(self) -> Offset | None:
        return self.latest_offset(None, self.default_read_limit())

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        begin = self._begin(start)
        end = self._source.latest_offset(begin, limit)
        if end is None:
            return None
        self._refuse_going_back(begin, end)
        offset = self._offset(end, "latest_offset")
        if start is None and offset == self._offset(begin, "initial_offset"):
            return None
        return offset

    def report_latest_offset(self) -> Offset | None:
        latest = self._source.report_latest_offset()
        return None if latest is None else self._offset(latest, "report_latest_offset")

    def backlog_rows(self, start: Offset | None) -> int | None:
        return self._source.backlog_rows(self._begin(start))

    def get_batch(self, start: Offset | None, end: Offset) -> V1Data:
        batch = self._source.get_batch(self._session, self._begin(start), offset_value(end))
        if not isinstance(batch, DataFrame):
            raise InvalidBatchError(f"get_batch of {self} returned {batch!r}, not a DataFrame")
        if batch.isStreaming:
            raise InvalidBatchError(
                f"get_batch of {self} returned a streaming DataFrame; it must return the rows of "
                "one batch"
            )
        jdf = batch._jdf
        jschema = jdf.schema()
        if jschema.catalogString() != self._columns:
            raise InvalidBatchError(
                f"get_batch of {self} returned the columns {jschema.catalogString()}; its schema "
                f"has {self._columns}"
            )
        rows = jdf.queryExecution().toRdd()
        streaming = self._session._jsparkSession.internalCreateDataFrame(rows, jschema, True)
        return V1Data(streaming.logicalPlan())

    def _refuse_going_back(self, begin: Any, end: Any) -> None:
        """Raise an error if a numeric offset decreases. Other offsets have no known order."""
        if isinstance(begin, (int, float)) and isinstance(end, (int, float)) and end < begin:
            raise InvalidBatchError(
                f"latest_offset of {self} went back from {begin} to {end}: the rows between them "
                "would be read twice. If its data was replaced, start with a new checkpoint."
            )

    def _begin(self, start: Offset | None) -> Any:
        return self._source.initial_offset() if start is None else offset_value(start)

    def _offset(self, value: Any, method: str) -> Offset:
        """The offset of a JSON value, with sorted keys, so that equal objects are equal offsets."""
        try:
            text = json.dumps(
                value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True
            )
        except (TypeError, ValueError) as exc:
            raise InvalidBatchError(
                f"{method} of {self} returned {value!r}, which is not a JSON value: {exc}"
            ) from exc
        return SerializedOffset(text)

    def commit(self, end: Offset) -> None:
        self._source.commit(offset_value(end))

    def stop(self) -> None:
        self._source.stop()
