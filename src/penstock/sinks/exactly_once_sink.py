"""The base class of the sinks that write each batch exactly once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping

from pyspark.sql import DataFrame

from penstock.connectors import PythonSink, SinkBatch
from penstock.sinks.identity import Identity, OnRewind, batch_on_spark, compute_skipped
from penstock.sinks.secret_errors import without_secrets


class ExactlyOnceSink(PythonSink):
    """Writes a batch unless its table has it, and keeps secrets out of errors.

    `table` is the name or the path of the table, and `options` are those of Spark's writer. `name`
    is the identity of the sink, None for its name in `to`.
    """

    skips_known_batches = True

    def __init__(
        self, table: str, options: Mapping[str, str], name: str | None, on_rewind: OnRewind
    ) -> None:
        self._table = table
        self._options = dict(options)
        self._name = name
        self._on_rewind = on_rewind

    def __str__(self) -> str:
        return f"{type(self).__name__}[{self._table}]"

    def secret_options(self) -> Mapping[str, str]:
        return self._options

    def recorded_as(self, name: str) -> Hashable | None:
        return type(self).__name__, self._table, self._name or name

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        self.write_batch(batch_on_spark(batch_id, df), df)

    def write_batch(self, batch: SinkBatch, df: DataFrame) -> None:
        """Write a batch that the table does not have; one that it has is only computed."""
        is_one_of_many = batch.sink is not None
        with without_secrets(self._options):
            identity = Identity.of(batch, self._name)
            if not self._write_new(identity, df, is_kept=is_one_of_many):
                compute_skipped(batch, df)

    @abstractmethod
    def _write_new(self, identity: Identity, df: DataFrame, *, is_kept: bool) -> bool:
        """Write the batch. Returns False, and writes nothing, if the table has it.

        `is_kept` is whether the rows are persisted, as they are for one of many sinks.
        """
