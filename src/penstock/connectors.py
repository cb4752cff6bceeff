"""The base classes of sources and sinks written in Python.

They have no implementation, so that every package that uses Spark may import them: `api` accepts
them from users, `spark` calls them, `testing` derives from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.engine.read_limit import ReadLimit


class PythonSource(ABC):
    """A source written in Python, to be read with `penstock.read_stream`.

    An offset is any JSON value; offsets with the same JSON are the same position. The engine calls
    every method on the thread of the query. Several queries may read the same source object.

        class Counter(PythonSource):
            def schema(self):
                return "n long"

            def initial_offset(self):
                return 0

            def latest_offset(self, start, limit):
                return start + 10

            def get_batch(self, spark, start, end):
                return spark.range(start + 1, end + 1).toDF("n")
    """

    @abstractmethod
    def schema(self) -> StructType | str:
        """The columns, as a StructType or a DDL string. Called once, by `read_stream`."""

    @abstractmethod
    def initial_offset(self) -> Any:
        """The position before the first row.

        Must return the same offset in every run of the program until the first batch is committed.
        """

    @abstractmethod
    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        """The end offset of the next batch, which starts after `start`.

        Return `start` if there is no new data. The batch should be within `limit`; a source that
        cannot limit its batches may ignore it.
        """

    @abstractmethod
    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        """The rows after `start` up to and including `end`, with the columns of `schema`.

        Must return the same rows for the same offsets, also in a later run of the program, because
        a batch that failed is run again with the same offsets.
        """

    def commit(self, end: Any) -> None:
        """Called when a query has processed all rows up to `end` and will not read them again.

        If a source is read twice, by two queries or by both sides of a join with itself, each
        reader calls this with its own offset.
        """

    def stop(self) -> None:
        """Called when a query that reads the source ends. Other queries may still read it."""

    def prepare_for_trigger_available_now(self) -> None:
        """Do not return an offset beyond the current end of the data from now on.

        Override it to support Trigger.AvailableNow in several batches; without it such a query
        reads the source in a single batch.
        """

    def read_limit(self) -> ReadLimit | None:
        """The default limit of a batch; None for all available data."""
        return None

    def report_latest_offset(self) -> Any:
        """The current end of the data, for progress records only; None if it is unknown."""
        return None

    def backlog_rows(self, start: Any) -> int | None:
        """The number of rows after `start` that can be read now; None if it is not known.

        Triggers use it to decide whether to read. By default the difference of
        `report_latest_offset` and `start`, if both are whole numbers.
        """
        latest = self.report_latest_offset()
        if isinstance(latest, int) and isinstance(start, int):
            return max(latest - start, 0)
        return None

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        """Called once by each query with a callback that wakes it: call `nudge` on new data.

        `nudge` may be called from any thread. If it is never called, a waiting query polls the
        source at intervals of at most ten times `spark.sql.streaming.pollingDelay`.
        """

    def __str__(self) -> str:
        return f"{type(self).__name__}[python]"


@dataclass(frozen=True)
class SinkBatch:
    """Identifies a batch to a sink. It is the same whenever the batch is written again.

    `query_id` is that of the checkpoint. `planned_at_ms` is the timestamp of the batch in the
    offset log: if a checkpoint was rewound, a batch that is planned anew has another one. `sink` is
    the name of the sink in `to`, None for the only sink of a query, and `replaces` the name that
    the sink had before.
    """

    query_id: str
    batch_id: int
    planned_at_ms: int | None
    sink: str | None = None
    replaces: str | None = None


class PythonSink(ABC):
    """A sink written in Python, for `write_stream(df).sink(...)`.

    Delivery is at least once: after a crash the last batch may be written again, with the same id
    and the same rows. A sink that stores the batch ids with the data, and skips batches that it
    already has, is exactly once.
    """

    @abstractmethod
    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        """Write one batch. When this returns, the batch is considered written."""

    def write_batch(self, batch: SinkBatch, df: DataFrame) -> None:
        """Write one batch whose whole identity is known. The engine calls this method.

        By default it calls `add_batch`. Override it in a sink that stores the identity.
        """
        self.add_batch(batch.batch_id, df)

    def secret_options(self) -> Mapping[str, str]:
        """Options whose secrets are removed from messages, logs and progress records."""
        return {}

    def recorded_as(self, name: str) -> Hashable | None:
        """Where, and under which name, the sink records its batches, if it is `name` in `to`.

        None if it records none. Of two sinks with the same answer in one query, the second would
        skip every batch of the first: the query is refused.
        """
        return None

    skips_known_batches = False
    """Whether the sink skips a batch that it has. `bisect --with-sink` refuses such a sink."""

    def __str__(self) -> str:
        return f"{type(self).__name__}[python]"
