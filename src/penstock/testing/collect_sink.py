"""A sink that keeps the rows of every batch in memory, for tests."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from penstock.connectors import PythonSink


@dataclass(frozen=True)
class Delivery:
    """One call of the sink: the batch id, the columns and the rows."""

    batch_id: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class CollectSink(PythonSink):
    """A sink that collects the rows of every batch in memory.

    A batch that is delivered twice, for instance after a crash, is in `deliveries` twice; `batches`
    and `rows` contain its latest delivery only. One sink may be used for several runs of a query.

        sink = CollectSink()
        write_stream(df).sink(sink).trigger(availableNow=True).start().awaitTermination()
        assert [row.word for row in sink.rows] == ["a", "b"]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deliveries: list[Delivery] = []

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        """Collect a batch. Called by the query."""
        delivery = Delivery(batch_id, tuple(df.columns), tuple(df.collect()))
        with self._lock:
            self._deliveries.append(delivery)

    @property
    def deliveries(self) -> list[Delivery]:
        """All deliveries, in order."""
        with self._lock:
            return list(self._deliveries)

    @property
    def batches(self) -> dict[int, list[Row]]:
        """The rows of each batch by batch id, in the order of the ids."""
        latest = {delivery.batch_id: list(delivery.rows) for delivery in self.deliveries}
        return dict(sorted(latest.items()))

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches, each batch once, in the order of the batch ids."""
        return [row for rows in self.batches.values() for row in rows]

    def clear(self) -> None:
        """Remove all deliveries."""
        with self._lock:
            self._deliveries.clear()
