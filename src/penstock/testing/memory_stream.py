"""A source in memory to which a test adds rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.api.reader import read_stream
from penstock.connectors import PythonSource
from penstock.engine.read_limit import CompositeReadLimit, ReadLimit, ReadMaxRows
from penstock.errors import InvalidBatchError
from penstock.testing.rows import as_tuple


class MemoryStream(PythonSource):
    """A source that reads the rows that a test adds to it.

    An offset is the number of rows from the start of the stream. Rows are kept in memory as long
    as this object exists, so that a query can be restarted on its checkpoint and several queries
    can read the same stream. Rows may be added from any thread while queries are running.

        stream = MemoryStream("word string, n int")
        stream.add_data([("a", 1), {"word": "b", "n": 2}])
        counts = stream.to_df().groupBy("word").count()
    """

    def __init__(
        self,
        schema: StructType | str,
        spark: SparkSession | None = None,
        partitions: int | None = None,
        *,
        rows_per_batch: int | None = None,
    ) -> None:
        """`schema` is a StructType or a DDL string, `spark` by default the active session.

        `partitions` is the number of partitions of each batch, by default chosen by Spark.
        `rows_per_batch` is the maximum number of rows of a batch, by default unlimited. Raises
        ValueError if one of these is less than 1.
        """
        for name, number in (("partitions", partitions), ("rows_per_batch", rows_per_batch)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        self._spark = spark or SparkSession.active()
        self._schema = self._spark.createDataFrame([], schema).schema
        self._partitions = partitions
        self._rows_per_batch = rows_per_batch
        self._lock = threading.Lock()
        self._rows: list[tuple[Any, ...]] = []
        self._available_now_end: int | None = None
        self._nudges: list[Callable[[], None]] = []

    def add_data(self, rows: Iterable[Any]) -> int:
        """Add rows and return the offset of the last one.

        A row is a tuple, a Row, a dict by column name or, for a single column, its value. Raises
        ValueError or PySpark's error, without adding any row, if one does not fit the schema.
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
        """The stream as a streaming DataFrame, for queries that Penstock runs.

        Each call creates another source of a query. To join the stream with itself and read it
        only once, call this once.
        """
        return read_stream(self, self._spark)

    def __str__(self) -> str:
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in self._schema)
        return f"MemoryStream[{columns}]"

    # The methods of PythonSource, which the engine calls.

    def schema(self) -> StructType:
        return self._schema

    def initial_offset(self) -> int:
        return 0

    def latest_offset(self, start: Any, limit: ReadLimit) -> int:
        with self._lock:
            available = len(self._rows)
            if self._available_now_end is not None:
                available = min(available, self._available_now_end)
        bounds = limit.limits if isinstance(limit, CompositeReadLimit) else (limit,)
        most = [bound.max_rows for bound in bounds if isinstance(bound, ReadMaxRows)]
        # Not before the start, which in a checkpoint of another stream may be beyond the end.
        begin = int(start)
        return max(begin, min([available, *(begin + rows for rows in most)]))

    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        with self._lock:
            available = len(self._rows)
            rows = self._rows[start:end]
        if end > available:
            raise InvalidBatchError(
                f"the checkpoint has offset {end} of {self}, but only {available} rows were added "
                "to it. A MemoryStream keeps its rows in memory: restart the query with the same "
                "object, or use a new checkpoint"
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
            self._available_now_end = len(self._rows)

    def stop(self) -> None:
        with self._lock:
            self._available_now_end = None

    def _data_frame(self, spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
        df = spark.createDataFrame(rows, self._schema)
        return df if self._partitions is None else df.repartition(self._partitions)
