"""A stream that a test fills row by row."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.api.source import PythonSource, read_stream
from penstock.engine.read_limit import CompositeReadLimit, ReadLimit, ReadMaxRows
from penstock.errors import InvalidBatchError
from penstock.testing.rows import as_tuple


class MemoryStream(PythonSource):
    """A source whose rows are the ones that were added to it, in memory.

    An offset is the number of rows up to there. Rows are kept for good, so that a query may be
    started again on its checkpoint, or another query read the same stream, as long as this object
    lives. Rows may be added from any thread, while queries run.
    """

    def __init__(
        self,
        schema: StructType | str,
        spark: SparkSession | None = None,
        partitions: int | None = None,
        *,
        rows_per_batch: int | None = None,
    ) -> None:
        """`schema` is a StructType or DDL; `spark` the active session if it is not given.

        Each batch has so many partitions, and at most so many rows; without these, as many
        partitions as Spark sees fit, and all the rows there are.
        """
        for name, number in (("partitions", partitions), ("rows_per_batch", rows_per_batch)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is to be at least 1, not {number}")
        self._spark = spark or SparkSession.active()
        self._schema = self._spark.createDataFrame([], schema).schema
        self._partitions = partitions
        self._rows_per_batch = rows_per_batch
        self._lock = threading.Lock()
        self._rows: list[tuple[Any, ...]] = []
        self._stands_at: int | None = None
        self._nudges: list[Callable[[], None]] = []

    def add_data(self, rows: Iterable[Any]) -> int:
        """Add rows; returns the offset of the last one.

        A row is a tuple, a Row, a dict by column name or, for a single column, its value. Raises
        without adding any if one of them does not fit the schema.
        """
        tuples = [as_tuple(row, self._schema) for row in rows]
        self._data_frame(self._spark, tuples)
        with self._lock:
            self._rows += tuples
            added, nudges = len(self._rows), list(self._nudges)
        for nudge in nudges:
            nudge()
        return added

    def to_df(self) -> DataFrame:
        """The stream as a DataFrame, for any query that Penstock runs. Each call makes one more
        source: to join the stream with itself without reading it twice, call it once."""
        return read_stream(self, self._spark)

    def __str__(self) -> str:
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in self._schema)
        return f"MemoryStream[{columns}]"

    # What the engine asks.

    def schema(self) -> StructType:
        return self._schema

    def initial_offset(self) -> int:
        return 0

    def latest_offset(self, start: Any, limit: ReadLimit) -> int:
        with self._lock:
            available = len(self._rows)
            if self._stands_at is not None:
                available = min(available, self._stands_at)
        bounds = limit.limits if isinstance(limit, CompositeReadLimit) else (limit,)
        most = [bound.max_rows for bound in bounds if isinstance(bound, ReadMaxRows)]
        # Never before the start, which may be beyond the end in a checkpoint of another stream.
        begin = int(start)
        return max(begin, min([available, *(begin + rows for rows in most)]))

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        with self._lock:
            available = len(self._rows)
            rows = self._rows[start:end]
        if end > available:
            raise InvalidBatchError(
                f"the checkpoint has {self} at row {end}, but only {available} rows were added to "
                "it; a memory stream lasts as long as its object, not longer"
            )
        return self._data_frame(spark, rows)

    def read_limit(self) -> ReadLimit | None:
        return None if self._rows_per_batch is None else ReadMaxRows(self._rows_per_batch)

    def report_latest_offset(self) -> int:
        with self._lock:
            return len(self._rows)

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        with self._lock:
            self._nudges.append(nudge)

    def prepare_for_trigger_available_now(self) -> None:
        with self._lock:
            self._stands_at = len(self._rows)

    def stop(self) -> None:
        with self._lock:
            self._stands_at = None

    def _data_frame(self, spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
        df = spark.createDataFrame(rows, self._schema)
        return df if self._partitions is None else df.repartition(self._partitions)
