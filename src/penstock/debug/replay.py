"""Reads a recorded batch of a query again, for instance the batch that failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

from pyspark.sql import DataFrame

from penstock.spark.replay.replayed_batch import ReplayedBatch


class Replay:
    """One batch of a query as ordinary DataFrames, from its recorded offsets.

    Returned by `penstock.replay`. Nothing is written, no sink is called, and nothing is committed
    to a source. The DataFrames have the settings, the timestamp and the watermark that the offset
    log records for the batch. They are computed when they are used, from the data that the sources
    still have: if files were removed or records have expired, the source raises its own error. Also
    a context manager, which calls `close`.
    """

    def __init__(self, batch: ReplayedBatch) -> None:
        self._batch = batch

    @property
    def batch_id(self) -> int:
        """The id of the batch."""
        return self._batch.batch_id

    @property
    def timestamp_ms(self) -> int:
        """The value of `current_timestamp()` in the batch, in milliseconds since the epoch."""
        return self._batch.metadata.batch_timestamp_ms

    @property
    def watermark_ms(self) -> int:
        """The watermark of the batch, in milliseconds since the epoch."""
        return self._batch.metadata.batch_watermark_ms

    @property
    def is_stateful(self) -> bool:
        """Whether the query is stateful, so that `output` is not available."""
        return self._batch.is_stateful

    @property
    def offsets(self) -> Mapping[str, tuple[str | None, str | None]]:
        """The start (exclusive) and end (inclusive) offset of each source, as JSON texts."""
        return {str(source): self._batch.range_of(source) for source in self._batch.sources}

    @property
    def inputs(self) -> list[DataFrame]:
        """The rows that the batch read from each source, in the order of the query."""
        return [self._batch.input(source) for source in self._batch.sources]

    @property
    def input(self) -> DataFrame:
        """The rows that the batch read, for a query with one source.

        Raises ValueError if the query has several sources; use `inputs` then.
        """
        sources = self._batch.sources
        if len(sources) != 1:
            raise ValueError(f"this query has {len(sources)} sources; use inputs[number] instead")
        return self._batch.input(sources[0])

    @property
    def output(self) -> DataFrame:
        """The rows that the batch passed to its sink, for a stateless query.

        Raises UnsupportedError for a stateful query; the message says what to do instead.
        """
        return self._batch.output()

    def close(self) -> None:
        """Close the sources in Spark. DataFrames that were obtained before remain usable."""
        self._batch.close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Replay(batch_id={self.batch_id}, offsets={dict(self.offsets)})"


def replay(
    df: DataFrame, checkpoint: str | os.PathLike[str], batch_id: int | None = None
) -> Replay:
    """Read a batch of a query again, as ordinary DataFrames.

    `df` is the streaming DataFrame that the query was started with, `checkpoint` its checkpoint
    location and `batch_id` the batch, by default the last one planned. Works with every source
    that returns the same rows for the same offsets, also while the query is running. Raises
    MissingBatchError if the offset log does not contain the batch and the one before it.

        with penstock.replay(df, "/data/checkpoint", 17) as batch:
            batch.input.show()
    """
    return Replay(ReplayedBatch(df, os.fspath(checkpoint), batch_id))
