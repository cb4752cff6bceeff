"""A sink that keeps the rows of every batch, for a test to look at."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from penstock.api.sink import PythonSink


@dataclass(frozen=True)
class Delivery:
    """A batch as the sink was given it."""

    batch_id: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class CollectSink(PythonSink):
    """Collects every batch: for `write_stream(df).sink(CollectSink())`.

    A batch that is delivered twice, as after a crash, is in `deliveries` twice; everywhere else
    its latest delivery counts. One sink may serve several runs of a query.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deliveries: list[Delivery] = []

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        delivery = Delivery(batch_id, tuple(df.columns), tuple(df.collect()))
        with self._lock:
            self._deliveries.append(delivery)

    @property
    def deliveries(self) -> list[Delivery]:
        """Every delivery, in the order they came."""
        with self._lock:
            return list(self._deliveries)

    @property
    def batches(self) -> dict[int, list[Row]]:
        """The rows of each batch, by its id."""
        latest = {delivery.batch_id: list(delivery.rows) for delivery in self.deliveries}
        return dict(sorted(latest.items()))

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches, each batch once."""
        return [row for rows in self.batches.values() for row in rows]

    def clear(self) -> None:
        """Forget everything so far."""
        with self._lock:
            self._deliveries.clear()
