"""Looking into a batch of the past, for instance the one that killed the job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

from pyspark.sql import DataFrame

from penstock.spark.replay.replayed_batch import ReplayedBatch


class Replay:
    """One batch of a query, from its recorded offsets, as ordinary DataFrames.

    Nothing is written, no sink is called, and no source is told that anything is done. The frames
    have the settings, the timestamp and the watermark that the batch was decided with. They are
    computed when they are used, from what the sources still have: files that were removed, or
    records that have expired, fail as the source fails.
    """

    def __init__(self, batch: ReplayedBatch) -> None:
        self._batch = batch

    @property
    def batch_id(self) -> int:
        return self._batch.batch_id

    @property
    def timestamp_ms(self) -> int:
        """What `current_timestamp()` is in the batch."""
        return self._batch.metadata.batch_timestamp_ms

    @property
    def watermark_ms(self) -> int:
        return self._batch.metadata.batch_watermark_ms

    @property
    def is_stateful(self) -> bool:
        """Whether the query keeps state, so that its output cannot be replayed."""
        return self._batch.is_stateful

    @property
    def offsets(self) -> Mapping[str, tuple[str | None, str | None]]:
        """By source, the offsets it is read after and up to, as JSON texts."""
        return {str(source): self._batch.range_of(source) for source in self._batch.sources}

    @property
    def inputs(self) -> list[DataFrame]:
        """What the batch read from each source, in the order of the query."""
        return [self._batch.input(source) for source in self._batch.sources]

    @property
    def input(self) -> DataFrame:
        """What the batch read, of a query with one source."""
        sources = self._batch.sources
        if len(sources) != 1:
            raise ValueError(f"this query has {len(sources)} sources: use inputs[number]")
        return self._batch.input(sources[0])

    @property
    def output(self) -> DataFrame:
        """What the batch handed to its sink, of a query without state.

        Raises UnsupportedError for one that keeps state, and says what to do instead.
        """
        return self._batch.output()

    def close(self) -> None:
        """Let go of Spark's sources. The frames that were taken still work."""
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
    """A batch that a query on `checkpoint` has planned, by default the last, to be looked into.

    `df` is the streaming DataFrame that the query was started with. It works for every source that
    can give the same rows for the same offsets again, while the query runs too. Raises
    MissingBatchError if the offset log does not have the batch, or not the one before it.
    """
    return Replay(ReplayedBatch(df, os.fspath(checkpoint), batch_id))
