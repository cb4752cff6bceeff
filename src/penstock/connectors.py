"""A sink written in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame


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
