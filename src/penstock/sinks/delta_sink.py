"""Writes each batch to a Delta table, exactly once, by Delta's transaction identifiers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from penstock.connectors import PythonSink
from penstock.errors import ExecutionError
from penstock.sinks.identity import FoundBatch, Identity, OnRewind
from penstock.sinks.lake_sink import LakeMode, LakeSink, check_lake_arguments, writer_options
from penstock.spark.sinks.delta_transactions import DeltaTransaction, latest_transaction

_logger = logging.getLogger(__name__)

_OF_DELTA = ("txnappid", "txnversion")


def delta(
    path: str | None = None,
    *,
    table: str | None = None,
    mode: LakeMode = "append",
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
    on_rewind: OnRewind = "fail",
) -> PythonSink:
    """A sink that writes each batch to a Delta table, by path or by name, exactly once.

    Delta's options `txnAppId` and `txnVersion` are set by query, sink and batch, so that Delta
    skips a batch that the table has. A missing table is created, partitioned by `partition_by`.
    `mode` is `append`, or `overwrite`: a batch replaces all rows, for the output mode `complete`.

    `options` are further options of Delta's writer, such as `mergeSchema`. `name` is the identity
    of the sink in the table, by default its name in `to`. `on_rewind` is what happens with a batch
    that the table has, but that a rewound checkpoint has planned anew: with `fail` the query fails;
    with `warn` the batch is skipped with a warning, and rows that only its new plan has are lost.

        penstock.write_stream(clicks).to("lake", penstock.sinks.delta("/lake/clicks"))
    """
    if (path is None) == (table is None):
        raise ValueError("give either the path or the name of a Delta table")
    check_lake_arguments(mode, name, on_rewind)
    given = writer_options(options, _OF_DELTA.__contains__)
    return DeltaSink(path, table, mode, tuple(partition_by), given, name, on_rewind)


class DeltaSink(LakeSink):
    """See `delta`. Delta itself checks in the commit that the table does not have the batch."""

    def __init__(
        self,
        path: str | None,
        table: str | None,
        mode: LakeMode,
        partition_by: Sequence[str],
        options: Mapping[str, str],
        name: str | None,
        on_rewind: OnRewind,
    ) -> None:
        super().__init__(table or path or "", mode, options, name, on_rewind)
        self._path = path
        self._table_name = table
        self._partition_by = partition_by

    def _commit(self, identity: Identity, df: DataFrame) -> None:
        options = {
            **self._options,
            "txnAppId": app_id_of(identity.query_id, identity.sink),
            "txnVersion": str(identity.batch_id),
        }
        writer = df.write.format("delta").mode(self._mode).options(**options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        if self._table_name is not None:
            writer.saveAsTable(self._table_name)
        else:
            writer.save(self._path)

    def _is_there(self, df: DataFrame, identity: Identity) -> bool:
        spark = df.sparkSession
        try:
            location = self._location(spark)
            if location is None:
                return False
            for app_id in _app_ids(identity):
                found = latest_transaction(spark, location, app_id)
                if found is not None and found.version >= identity.batch_id:
                    self._skip(identity, found)
                    return True
        except ExecutionError as exc:
            if exc.__cause__ is None:  # a rewound checkpoint
                raise
            _logger.warning(
                "Whether the checkpoint was rewound below the table %s is not checked: %s. A batch "
                "that the table has is skipped by Delta without a warning.",
                self,
                exc,
            )
        return False

    def _skip(self, identity: Identity, found: DeltaTransaction) -> None:
        is_older = identity.is_planned_after(found.committed_at_ms)
        rewound = found.version > identity.batch_id or is_older
        place = f"the Delta table {self._table}"
        identity.skip(FoundBatch(place, found.version, rewound), self._on_rewind)

    def _location(self, spark: SparkSession) -> str | None:
        """The location of the table; None if there is no table of the name."""
        if self._table_name is None:
            return self._path
        if not spark.catalog.tableExists(self._table_name):
            return None
        [detail] = spark.sql(f"DESCRIBE DETAIL {self._table_name}").collect()
        return str(detail.location)


def app_id_of(query_id: str, sink: str) -> str:
    """Delta's application id of a sink of a query."""
    return f"penstock/{query_id}/{sink}"


def _app_ids(identity: Identity) -> list[str]:
    """The application ids under which the table may have the batch."""
    app_ids = [app_id_of(identity.query_id, sink) for sink in (identity.sink, *identity.former)]
    # Delta's own streaming sink uses the query id.
    return [*app_ids, identity.query_id] if identity.may_follow_spark else app_ids
