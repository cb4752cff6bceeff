"""The classes that a source or a sink written in Python derives from.

They are contracts without an implementation, so every room that knows Spark may import them: `api`
takes them from users, `spark` calls them, `testing` derives from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.engine.read_limit import ReadLimit


class PythonSource(ABC):
    """A source of rows for `penstock.read_stream`.

    An offset is any JSON value; two that have the same JSON are the same position. The engine
    calls every method on the query's thread. If several queries read one source, they share it.
    """

    @abstractmethod
    def schema(self) -> StructType | str:
        """The columns, as a StructType or in DDL. Asked once, before the query starts."""

    @abstractmethod
    def initial_offset(self) -> Any:
        """The position before the first row. Not in any batch itself.

        The same in every run of the program, until the first batch is committed.
        """

    @abstractmethod
    def latest_offset(self, start: Any, limit: ReadLimit) -> Any:
        """Where the next batch after `start` is to end, within `limit`.

        Returning `start` says that there is nothing new. A source that cannot limit itself may
        ignore `limit`.
        """

    @abstractmethod
    def get_batch(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        """The rows after `start` up to and including `end`.

        The same two positions must give the same rows, also in a later run of the program:
        that is what makes a batch that is run again the same batch.
        """

    def commit(self, end: Any) -> None:
        """Everything up to `end` is processed, and whoever read it will not ask for it again.

        A source that is read twice, by two queries or by both sides of a join with itself, is told
        so by each reader, and each may be somewhere else.
        """

    def stop(self) -> None:
        """A query that reads it is over, and calls nothing after this. Others may go on."""

    def prepare_for_trigger_available_now(self) -> None:
        """From now on, never return an offset beyond what is available at this moment.

        Override it to support Trigger.AvailableNow in several batches; a source that does not is
        read in a single one.
        """

    def read_limit(self) -> ReadLimit | None:
        """How much one batch may take by default; None for everything there is."""
        return None

    def report_latest_offset(self) -> Any:
        """The end of all that is available, for progress only; None to say nothing."""
        return None

    def on_new_data(self, nudge: Callable[[], None]) -> None:
        """Told once by each query: call `nudge`, from any thread, to be asked for new data at once.

        Without it a query that waits for data asks again after a while, at most ten times
        `spark.sql.streaming.pollingDelay`.
        """

    def __str__(self) -> str:
        return f"{type(self).__name__}[python]"


class PythonSink(ABC):
    """Where the batches of a query go, in Python: for `write_stream(df).sink(...)`.

    Delivery is at least once: after a crash the last batch may come again, with the same id and
    the same rows. A sink that remembers the ids it has taken makes it exactly once.
    """

    @abstractmethod
    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        """Take one batch. When this returns, the batch counts as written."""

    def __str__(self) -> str:
        return f"{type(self).__name__}[python]"
