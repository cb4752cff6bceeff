"""Sinks that keep what they get, and runs with them, for the tests of many sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from penstock import DataStreamWriter
from tests.streams import column, log_entries

Batches = dict[int, list[int]]


def keep(batches: Batches) -> Callable[[DataFrame, int], None]:
    """A sink that keeps the numbers of each batch, and fails if it gets a batch twice."""

    def take(df: DataFrame, batch_id: int) -> None:
        assert batch_id not in batches
        batches[batch_id] = column(df)

    return take


def fail(df: DataFrame, batch_id: int) -> None:
    raise KeyError("boom")


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def entries(checkpoint: Path, sink: str) -> list[int]:
    return log_entries(checkpoint, f".penstock/sinks/{sink}")
