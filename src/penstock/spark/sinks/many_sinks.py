"""The many sinks of a query: each gets the rows of a batch that Spark has computed once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession

from penstock.connectors import PythonSink, SinkBatch
from penstock.engine.named_sinks import NamedSink, SinkWriter
from penstock.spark.sinks.batch_sinks import BatchFunction, PythonBatchSink, write_to


@dataclass(frozen=True)
class SinkSpec:
    """One of many sinks: its function or the sink itself, and the rows that it gets.

    None as `where`: all rows.
    """

    sink: NamedSink
    function: BatchFunction | PythonSink
    where: str | Column | None = None

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        rows = df if self.where is None else df.where(self.where)
        own = replace(batch, sink=self.sink.name, replaces=self.sink.replaces)
        write_to(self.function, own, rows)


class ManySinks(PythonBatchSink):
    """Several functions that get each batch, of which the engine calls those that are due."""

    def __init__(self, session: SparkSession, specs: Sequence[SinkSpec]) -> None:
        described = ", ".join(f"{spec.sink.name}: {spec.sink.description}" for spec in specs)
        super().__init__(session, _not_called, f"ManySinks[{described}]")
        self._specs = {spec.sink.name: spec for spec in specs}

    @property
    def sinks(self) -> Sequence[NamedSink]:
        return [spec.sink for spec in self._specs.values()]

    def share_batch(
        self,
        batch: SinkBatch,
        execution: Any,
        deliver: Callable[[SinkWriter], None],
        *,
        is_wanted: bool,
    ) -> int:
        """Compute a planned batch as one SQL execution and keep its rows while `deliver` runs."""
        rows = 0

        def share(df: DataFrame) -> None:
            nonlocal rows
            with kept(df) if is_wanted else contextlib.nullcontext():
                # Every partition is computed here: a sink may read only some of them.
                rows = df.count()
                deliver(lambda name: self._specs[name].write(df, batch))

        self.call(execution, share)
        return rows

    def add_batch(self, batch: SinkBatch, execution: Any) -> int | None:
        def write_to_all(df: DataFrame) -> None:
            for spec in self._specs.values():
                spec.write(df, batch)

        self.call(execution, write_to_all)
        return None


def _not_called(df: DataFrame, batch_id: int) -> None:
    """The function of a sink that has its own `add_batch`."""


@contextlib.contextmanager
def kept(df: DataFrame) -> Iterator[None]:
    """Keep the rows of a DataFrame, once computed, in memory or on disk during the block."""
    df.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        try:
            df.unpersist()
        except Exception:  # a stop interrupts the thread, but only once
            df.unpersist()
