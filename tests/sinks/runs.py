"""Runs queries with a sink under test."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock import DataStreamWriter, PythonSink, read_stream, write_stream
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.surgery import rewind as rewound
from penstock.checkpoint.tools.view import CheckpointView
from tests.streams import StandingNumbers


def numbers(session: SparkSession, available: int) -> DataFrame:
    """A stream of the numbers below `available`, two in a batch."""
    return read_stream(StandingNumbers(available, at_most=2), session)


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def write(session: SparkSession, available: int, sink: PythonSink, checkpoint: Path) -> None:
    """Write the numbers below `available` that the checkpoint does not have yet."""
    run(write_stream(numbers(session, available)).sink(sink), checkpoint)


def rewind(checkpoint: Path, to_batch: int) -> None:
    backup.apply(checkpoint, rewound(CheckpointView(checkpoint), to_batch))
