"""Adapters of Spark's V1 and V2 streaming sources for the engine."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.known_offsets import KafkaOffset, parse_known
from penstock.engine.data_stream import DataStream, MicroBatchStream, Source
from penstock.engine.offsets import Offset
from penstock.engine.read_limit import ALL_AVAILABLE, LimitUnit, ReadLimit, unit_of
from penstock.errors import InvalidBatchError
from penstock.spark.jvm.calls import send
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of
from penstock.spark.sources import read_limits

_logger = logging.getLogger(__name__)

_FILE_SOURCE = "FileStreamSource["
_MOST_LIMITS = 10
_NULL_POINTER = "java.lang.NullPointerException"
_CONNECTOR = "org.apache.spark.sql.connector.read.streaming"


class JvmOffset(Offset):
    """An offset with the JVM object it was created from, which is passed back to the source."""

    __slots__ = ("_json", "jvm_offset")

    def __init__(self, jvm_offset: Any) -> None:
        self.jvm_offset = jvm_offset
        self._json = str(send(jvm_offset, "json"))

    @property
    def json(self) -> str:
        return self._json


@dataclass(frozen=True)
class V2Range:
    """The data of a V2 batch: the start and end offset of its scan."""

    start: Any
    end: Any


@dataclass(frozen=True)
class V1Data:
    """The data of a V1 batch: a logical plan."""

    plan: Any


class _JvmStream(DataStream):
    """The common part of V1 and V2 streams."""

    def __init__(self, jvm: Jvm, jstream: Any, options: Mapping[str, str] | None = None) -> None:
        """`options` are those that the source was read with."""
        self._jvm = jvm
        self.jstream = jstream
        self.options = options or {}
        self._description, *abilities = fields_of(jvm.java.start.describeStream(jstream))
        (
            self._admission_control,
            self._available_now,
            self._accepts_latest_seen,
            self._reports_metrics,
            self._reports_latest,
        ) = (ability == "true" for ability in abilities)
        self._limits: dict[ReadLimit, Any] = {}

    def __str__(self) -> str:
        return self._description

    @property
    def supports_admission_control(self) -> bool:
        return self._admission_control

    @property
    def supports_trigger_available_now(self) -> bool:
        return self._available_now

    @property
    def accepts_latest_seen_offset(self) -> bool:
        return self._accepts_latest_seen

    def default_read_limit(self) -> ReadLimit:
        if not self._admission_control:
            return ALL_AVAILABLE
        return read_limits.from_jvm(self._call_default("getDefaultReadLimit"))

    def report_latest_offset(self) -> Offset | None:
        if not self._reports_latest:
            return None
        return _wrap(self._call_default("reportLatestOffset"))

    def backlog_rows(self, start: Offset | None) -> int | None:
        """Of a Kafka source, whose offsets count records and which reads nothing to find them."""
        known = parse_known(None if start is None else start.json)
        if not isinstance(known, KafkaOffset) or not self._admission_control:
            return None
        latest = self._ask_within_limit(start, ALL_AVAILABLE)
        end = parse_known(None if latest is None else latest.json)
        if not isinstance(end, KafkaOffset):
            return None
        # A partition that is new counts from its offset 0.
        return sum(max(to - known.partitions.get(p, 0), 0) for p, to in end.partitions.items())

    def prepare_for_trigger_available_now(self) -> None:
        self.jstream.prepareForTriggerAvailableNow()

    def set_latest_seen_offset(self, offset: Offset) -> None:
        self.jstream.setLatestSeenOffset(self._to_jvm(offset))

    def commit(self, end: Offset) -> None:
        send(self.jstream, "commit", self._to_jvm(end))

    def stop(self) -> None:
        self.jstream.stop()

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        if not self._reports_metrics:
            return {}
        consumed = None if latest_consumed is None else self._to_jvm(latest_consumed)
        optional = self._jvm.cls("java.util.Optional").ofNullable(consumed)
        try:
            return dict(self.jstream.metrics(optional))
        except Exception as exc:
            # SPARK-57438: the Kafka source of Spark 4.1.0 to 4.1.2, after a batch that was planned
            # by an earlier run. The batch is committed; a missing metric must not fail the query.
            if _NULL_POINTER not in str(exc):
                raise
            _logger.warning("The metrics of %s are not known: %s", self, _NULL_POINTER)
            return {}

    def _ask_within_limit(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        jlimit = self._limits.get(limit)
        if jlimit is None:
            if len(self._limits) >= _MOST_LIMITS:  # those of a paced query change all the time
                self._limits.clear()
            jlimit = self._limits[limit] = read_limits.to_jvm(self._jvm, limit)
        jstart = None if start is None else self._to_jvm(start)
        return _wrap(send(self.jstream, "latestOffset", jstart, jlimit))

    def _call_default(self, method: str) -> Any:
        return self._jvm.call_default(
            f"{_CONNECTOR}.SupportsAdmissionControl", method, self.jstream
        )

    def _to_jvm(self, offset: Offset) -> Any:
        raise NotImplementedError


class JvmSource(_JvmStream, Source):
    """A source of Spark's V1 API."""

    def get_offset(self) -> Offset | None:
        return _wrap(self._jvm.from_option(self.jstream.getOffset()))

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        if self._admission_control:
            return self._ask_within_limit(start, limit)
        return self.get_offset()

    @property
    def limit_unit(self) -> LimitUnit | None:
        if not self._admission_control:
            return None
        reads_files = str(self).startswith(_FILE_SOURCE)
        return unit_of(
            self.default_read_limit(), LimitUnit.FILES if reads_files else LimitUnit.ROWS
        )

    def count_in(self, data: object, unit: LimitUnit) -> int | None:
        """The files or bytes of a batch that reads a file relation."""
        if unit is LimitUnit.ROWS or not isinstance(data, V1Data):
            return None
        if not self._jvm.is_instance(data.plan, "LogicalRelation"):
            return None
        relation = data.plan.relation()
        if not self._jvm.is_instance(relation, "HadoopFsRelation"):
            return None
        if unit is LimitUnit.BYTES:
            return int(relation.location().sizeInBytes())
        return len(relation.inputFiles())

    def get_batch(self, start: Offset | None, end: Offset) -> V1Data:
        jstart = None if start is None else self._to_jvm(start)
        return self._batch_of(self.jstream, jstart, self._to_jvm(end))

    def _batch_of(self, jsource: Any, jstart: Any | None, jend: Any) -> V1Data:
        plan = self._jvm.java.start.batchOf(jsource, jstart, jend)
        if isinstance(plan, str):
            raise InvalidBatchError(
                f"DataFrame returned by getBatch from {self} did not have isStreaming=true\n{plan}"
            )
        return V1Data(plan)

    def _to_jvm(self, offset: Offset) -> Any:
        if isinstance(offset, JvmOffset):
            return offset.jvm_offset
        return self._jvm.new("SerializedOffset", json=offset.json)


class JvmMicroBatchStream(_JvmStream, MicroBatchStream):
    """A stream of the DataSource V2 API."""

    def initial_offset(self) -> Offset:
        return JvmOffset(self.jstream.initialOffset())

    def deserialize_offset(self, json: str) -> Offset:
        return JvmOffset(self.jstream.deserializeOffset(json))

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        if self._admission_control:
            return self._ask_within_limit(start, limit)
        return _wrap(self.jstream.latestOffset())

    def get_batch(self, start: Offset | None, end: Offset) -> V2Range:
        first = self.initial_offset() if start is None else start
        return V2Range(self._to_jvm(first), self._to_jvm(end))

    def _to_jvm(self, offset: Offset) -> Any:
        if isinstance(offset, JvmOffset):
            return offset.jvm_offset
        return self.jstream.deserializeOffset(offset.json)


def _wrap(jvm_offset: Any | None) -> Offset | None:
    return None if jvm_offset is None else JvmOffset(jvm_offset)


def offset_value(offset: Offset | None) -> Any:
    """The parsed JSON of an offset; None for None."""
    return None if offset is None else json.loads(offset.json)
