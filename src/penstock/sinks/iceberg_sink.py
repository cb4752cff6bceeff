"""Writes each batch to an Iceberg table, exactly once, by the summaries of its snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.connectors import PythonSink
from penstock.sinks.identity import Identity, OnRewind
from penstock.sinks.lake_sink import LakeMode, LakeSink, check_lake_arguments, writer_options

_PROPERTY = "snapshot-property."
_QUERY = "penstock.query-id"
_SINK = "penstock.sink"
_BATCH = "penstock.batch-id"
_PLANNED = "penstock.planned-at"


def iceberg(
    table: str,
    *,
    mode: LakeMode = "append",
    partition_by: Sequence[str | Column] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
    on_rewind: OnRewind = "warn",
) -> PythonSink:
    """A sink that writes each batch to an Iceberg table exactly once.

    Query, sink and batch are in the summary of the snapshot that a batch makes. Before the first
    batch of a run, and after a failure, the sink looks for its batch in the snapshots that the
    current one is based on. A missing table is created, partitioned by `partition_by`: columns, or
    transforms such as `pyspark.sql.functions.days("at")`. `mode` is `append`, or `overwrite`: a
    batch replaces all rows, for the output mode `complete`.

    `options` are further write options of Iceberg. `name` is the identity of the sink in the
    summaries, by default its name in `to`. `on_rewind` is `warn` or `fail`: what happens with a
    batch that the table has, but that a rewound checkpoint has planned anew.

        penstock.write_stream(clicks).to("lake", penstock.sinks.iceberg("lake.web.clicks"))
    """
    check_lake_arguments(mode, name, on_rewind)
    given = writer_options(options, lambda key: key.startswith(f"{_PROPERTY}penstock."))
    return IcebergSink(table, mode, tuple(partition_by), given, name, on_rewind)


@dataclass(frozen=True)
class _Found:
    batch_id: int
    planned_at_ms: int | None


class IcebergSink(LakeSink):
    """See `iceberg`."""

    def __init__(
        self,
        table: str,
        mode: LakeMode,
        partition_by: Sequence[str | Column],
        options: Mapping[str, str],
        name: str | None,
        on_rewind: OnRewind,
    ) -> None:
        super().__init__(table, mode, options, name, on_rewind)
        self._partition_by = partition_by

    def _commit(self, identity: Identity, df: DataFrame) -> None:
        self._latest.forget(identity)  # a write that fails may have made its snapshot
        writer = df.writeTo(self._table)
        for key, value in {**self._options, **_summary(identity)}.items():
            writer = writer.option(key, value)
        if self._mode == "overwrite":
            writer.overwrite(F.lit(True))
        else:
            writer.append()

    def _create(self, df: DataFrame) -> None:
        """Create the table, empty: the first batch is then a snapshot like all others."""
        creator = df.where("false").writeTo(self._table).using("iceberg")
        if self._partition_by:
            first, *others = [
                F.col(column) if isinstance(column, str) else column
                for column in self._partition_by
            ]
            creator = creator.partitionedBy(first, *others)
        creator.create()

    def _is_there(self, df: DataFrame, identity: Identity) -> bool:
        """Looks into the snapshots that the current one is based on. Creates a missing table."""
        spark = df.sparkSession
        if not spark.catalog.tableExists(self._table):
            self._create(df)
            return False
        spark.catalog.refreshTable(self._table)  # another process may have written it
        for sink in (identity.sink, *identity.former):
            batches = self._batches(spark, identity.query_id, sink)
            found = next((one for one in batches if one.batch_id == identity.batch_id), None)
            newest = max((one.batch_id for one in batches), default=-1)
            if found is None and newest < identity.batch_id:
                continue
            rewound = newest > identity.batch_id or (
                found is not None and identity.is_planned_anew(found.planned_at_ms)
            )
            place = f"the Iceberg table {self._table}"
            identity.skip(place, rewound=rewound, newest=newest, on_rewind=self._on_rewind)
            return True
        return False

    def _batches(self, spark: SparkSession, query_id: str, sink: str) -> list[_Found]:
        """The batches of a sink in the snapshots that the current one is based on."""
        history = spark.table(f"{self._table}.history").where("is_current_ancestor")
        counted = {row.snapshot_id for row in history.select("snapshot_id").collect()}
        summary = F.col("summary")
        snapshots = spark.table(f"{self._table}.snapshots").where(
            (summary[_QUERY] == query_id) & (summary[_SINK] == sink)
        )
        rows = snapshots.select("snapshot_id", summary[_BATCH], summary[_PLANNED]).collect()
        return [
            _Found(int(batch_id), None if planned is None else int(planned))
            for snapshot_id, batch_id, planned in rows
            if snapshot_id in counted
        ]


def _summary(identity: Identity) -> Mapping[str, str]:
    """The write options that add a batch to the summary of its snapshot."""
    properties = {
        _QUERY: identity.query_id,
        _SINK: identity.sink,
        _BATCH: str(identity.batch_id),
    }
    if identity.planned_at_ms is not None:
        properties[_PLANNED] = str(identity.planned_at_ms)
    return {f"{_PROPERTY}{key}": value for key, value in properties.items()}
