"""Writes each batch to an Iceberg table, exactly once, by the summaries of its snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.connectors import PythonSink
from penstock.errors import ExecutionError
from penstock.sinks.identity import FoundBatch, Identity, OnRewind
from penstock.sinks.lake_sink import LakeMode, LakeSink, check_lake_arguments, writer_options
from penstock.spark.sinks.iceberg_snapshots import current_properties

_PROPERTY = "snapshot-property."
_QUERY = "penstock.query-id"
_SINK = "penstock.sink"
_BATCH = "penstock.batch-id"
_PLANNED = "penstock.planned-at"
_SPARK_QUERY = "spark.sql.streaming.queryId"  # of Iceberg's own streaming sink
_SPARK_BATCH = "spark.sql.streaming.epochId"
_STAGING = ("spark.wap.branch", "spark.wap.id")
_STAGED = "write.wap.enabled"
_REMOVAL = "Or roll the table back to an earlier snapshot, which removes the record of a batch too."


def iceberg(
    table: str,
    *,
    mode: LakeMode = "append",
    partition_by: Sequence[str | Column] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
    on_rewind: OnRewind = "fail",
) -> PythonSink:
    """A sink that writes each batch to an Iceberg table exactly once.

    Query, sink and batch are in the summary of the snapshot that a batch makes. Before the first
    batch of a run, after a failure, and if the table has been changed since the last batch, the
    sink looks for its batch in the snapshots that the current one is based on. A missing table is
    created, partitioned by `partition_by`: columns, or transforms such as
    `pyspark.sql.functions.days("at")`. `mode` is `append`, or `overwrite`: a batch replaces all
    rows, for the output mode `complete`.

    `options` are further write options of Iceberg. `name` is the identity of the sink in the
    summaries, by default its name in `to`. `on_rewind` is what happens with a batch that the table
    has, but that a rewound checkpoint has planned anew: with `fail` the query fails; with `warn`
    the batch is skipped with a warning, and rows that only its new plan has are lost.

        penstock.write_stream(clicks).to("lake", penstock.sinks.iceberg("lake.web.clicks"))
    """
    check_lake_arguments(mode, name, on_rewind)
    given = writer_options(options, lambda key: key.startswith(f"{_PROPERTY}penstock."))
    return IcebergSink(table, mode, tuple(partition_by), given, name, on_rewind)


@dataclass(frozen=True)
class _Found:
    """A batch in the summary of a snapshot. `sink` is None for Iceberg's own streaming sink."""

    sink: str | None
    batch_id: int
    planned_at_ms: int | None
    committed_at_ms: int

    def is_of_another_plan_than(self, identity: Identity) -> bool:
        if self.planned_at_ms is None:
            return identity.is_planned_after(self.committed_at_ms)
        return identity.is_planned_anew(self.planned_at_ms)


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
        self._refuse_staged_commits(df.sparkSession)
        self._latest.forget(identity)  # a write that fails may have made its snapshot
        writer = df.writeTo(self._table)
        for key, value in {**self._options, **_summary(identity)}.items():
            writer = writer.option(key, value)
        if self._mode == "overwrite":
            writer.overwrite(F.lit(True))
        else:
            writer.append()

    def _refuse_staged_commits(self, spark: SparkSession) -> None:
        """Raise ExecutionError if Iceberg would commit to a branch, or publish nothing at all.

        The sink would not find the batch in the snapshots that the current one is based on.
        """
        setting = next((name for name in _STAGING if spark.conf.get(name, None)), None)
        if setting is None:
            return
        shown = spark.sql(f"SHOW TBLPROPERTIES {self._table} ('{_STAGED}')").collect()
        if any(value.lower() == "true" for key, value in shown if key == _STAGED):
            raise ExecutionError(
                f"The setting {setting} and the property {_STAGED} of the Iceberg table "
                f"{self._table} make Iceberg stage the commits of this session instead of "
                "changing the table. The sink could not find its batches again, and would write "
                "one twice after a crash. Unset one of the two."
            )

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
        sinks: list[str | None] = [identity.sink, *identity.former]
        if identity.may_follow_spark:
            sinks.append(None)
        recorded = self._batches(spark, identity.query_id)
        for sink in sinks:
            batches = [one for one in recorded if one.sink == sink]
            newest = max((one.batch_id for one in batches), default=-1)
            same = next((one for one in batches if one.batch_id == identity.batch_id), None)
            if same is None and newest < identity.batch_id:
                continue
            is_of_another_plan = newest > identity.batch_id or (
                same is not None and same.is_of_another_plan_than(identity)
            )
            place = f"the Iceberg table {self._table}"
            found = FoundBatch(place, newest, is_of_another_plan, _REMOVAL)
            identity.skip(found, self._on_rewind)
            return True
        return False

    def _is_changed(self, df: DataFrame, identity: Identity) -> bool:
        """Whether the current snapshot is not that of the last batch which this process wrote."""
        names = (_QUERY, _SINK, _BATCH)
        last = (identity.query_id, identity.sink, str(self._latest.newest(identity)))
        return current_properties(df.sparkSession, self._table, names) != last

    def _batches(self, spark: SparkSession, query_id: str) -> list[_Found]:
        """The batches of a query in the snapshots that the current one is based on."""
        history = spark.table(f"{self._table}.history").where("is_current_ancestor")
        counted = {row.snapshot_id for row in history.select("snapshot_id").collect()}
        summary = F.col("summary")
        rows = (
            spark.table(f"{self._table}.snapshots")
            .where((summary[_QUERY] == query_id) | (summary[_SPARK_QUERY] == query_id))
            .select(
                "snapshot_id",
                summary[_SINK],
                F.coalesce(summary[_BATCH], summary[_SPARK_BATCH]),
                summary[_PLANNED],
                F.unix_millis("committed_at"),
            )
            .collect()
        )
        return [
            _Found(sink, int(batch_id), None if planned is None else int(planned), committed)
            for snapshot_id, sink, batch_id, planned, committed in rows
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
