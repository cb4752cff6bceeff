"""Delta and Iceberg tables as sinks of the differential programs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from tests.differential.sinks import Outlet, Rows, Sink, canonical
from tests.real.delta_log import DeltaCommit, commits
from tests.real.lakehouses import ICEBERG_CATALOG

History = list[dict[str, Any]]
"""What a table records of each version, without times, ids and sizes."""


class LakeSink(Sink):
    """A table that records which query and which batch wrote each of its versions."""

    @abstractmethod
    def history(self, outlet: Outlet) -> History:
        """The versions of the table."""


@dataclass(frozen=True)
class DeltaSink(LakeSink):
    """A Delta table: by its path, or with `in_catalog` by its name."""

    in_catalog: bool = False
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        writer = writer.format("delta").options(**self.options)
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def start(self, writer: Any, outlet: Outlet) -> Any:
        if self.in_catalog:
            return writer.option("path", str(outlet.directory)).toTable(outlet.name)
        return writer.start(str(outlet.directory))

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        found: dict[int, Rows] = {}
        for commit in commits(outlet.directory):
            if commit.transaction is not None:
                _, batch_id = commit.transaction
                assert batch_id not in found, f"batch {batch_id} was written twice"
                found[batch_id] = sorted(commit.rows(), key=repr)
        return found

    def history(self, outlet: Outlet) -> History:
        return [_described(commit) for commit in commits(outlet.directory)]


def _described(commit: DeltaCommit) -> dict[str, Any]:
    parameters = {**commit.info.get("operationParameters", {})}
    if commit.transaction is not None:
        query_id, batch_id = commit.transaction
        assert (parameters.pop("queryId"), int(parameters["epochId"])) == (query_id, batch_id)
    metrics = {**commit.info.get("operationMetrics", {})}
    metrics.pop("numOutputBytes", None)
    return {
        "operation": commit.info["operation"],
        "parameters": parameters,
        "metrics": metrics,
        "isBlindAppend": commit.info.get("isBlindAppend"),
        "schema": commit.schema,
    }


@dataclass(frozen=True)
class IcebergSink(LakeSink):
    """An Iceberg table of the catalog."""

    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def attach(self, writer: Any, outlet: Outlet) -> Any:
        writer = writer.format("iceberg").options(**self.options)
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def start(self, writer: Any, outlet: Outlet) -> Any:
        return writer.toTable(iceberg_output(outlet.name))

    def rows(self, outlet: Outlet) -> Mapping[int, Rows]:
        found: dict[int, Rows] = {}
        for snapshot in self._snapshots(outlet):
            batch_id = int(snapshot["summary"]["spark.sql.streaming.epochId"])
            assert batch_id not in found, f"batch {batch_id} was written twice"
            found[batch_id] = canonical(self._read(outlet, snapshot).collect())
        return found

    def history(self, outlet: Outlet) -> History:
        counted = ("added-data-files", "added-records", "total-data-files", "total-records")
        return [
            {
                "operation": snapshot["operation"],
                "epoch": snapshot["summary"]["spark.sql.streaming.epochId"],
                **{key: snapshot["summary"].get(key) for key in counted},
            }
            for snapshot in self._snapshots(outlet)
        ]

    def _snapshots(self, outlet: Outlet) -> Rows:
        table = f"{iceberg_output(outlet.name)}.snapshots"
        rows = outlet.session.sql(f"SELECT * FROM {table} ORDER BY committed_at").collect()
        return [row.asDict(recursive=True) for row in rows]

    def _read(self, outlet: Outlet, snapshot: Mapping[str, Any]) -> DataFrame:
        """The rows that a snapshot adds; all of its rows if it replaces the others."""
        reader = outlet.session.read.format("iceberg")
        if snapshot["operation"] == "append" and snapshot["parent_id"] is not None:
            reader = reader.option("start-snapshot-id", snapshot["parent_id"])
            reader = reader.option("end-snapshot-id", snapshot["snapshot_id"])
        else:
            reader = reader.option("versionAsOf", snapshot["snapshot_id"])
        return reader.load(iceberg_output(outlet.name))


def iceberg_output(name: str) -> str:
    """The identifier of an Iceberg table that a query writes."""
    return f"{ICEBERG_CATALOG}.output.{name}"
