"""The identity of a batch that a sink written in Python gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import (
    DataStreamWriter,
    PythonSink,
    SinkBatch,
    StreamingQueryException,
    read_stream,
    write_stream,
)
from tests.streams import StandingNumbers


class Identities(PythonSink):
    """Keeps the identity of each batch, and fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.batches: list[SinkBatch] = []
        self.failures = failures

    def add_batch(self, batch_id: int, df: DataFrame) -> None:
        raise AssertionError("the engine calls write_batch")

    def write_batch(self, batch: SinkBatch, df: DataFrame) -> None:
        self.batches.append(batch)
        if len(self.batches) <= self.failures:
            raise OSError("not now")


def numbers(session: SparkSession) -> DataStreamWriter:
    return write_stream(read_stream(StandingNumbers(4, at_most=2), session))


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def recorded(checkpoint: Path, batch_id: int) -> tuple[str, int]:
    """The query id and the timestamp of a batch in a checkpoint."""
    _, metadata, *_ = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    query = json.loads((checkpoint / "metadata").read_text())
    return query["id"], json.loads(metadata)["batchTimestampMs"]


@pytest.mark.core
def test_a_sink_gets_the_query_the_batch_and_the_time_of_its_plan(
    session: SparkSession, checkpoint: Path
) -> None:
    sink = Identities(failures=1)
    with pytest.raises(StreamingQueryException, match="not now"):
        run(numbers(session).sink(sink), checkpoint)
    run(numbers(session).sink(sink), checkpoint)
    query_id, first = recorded(checkpoint, 0)
    _, second = recorded(checkpoint, 1)
    assert sink.batches == [
        SinkBatch(query_id, 0, first),
        SinkBatch(query_id, 0, first),
        SinkBatch(query_id, 1, second),
    ]


def test_one_of_many_sinks_gets_its_names(session: SparkSession, checkpoint: Path) -> None:
    sink, other = Identities(), Identities()
    writer = numbers(session).to("new", sink, replaces="old", parallel=True)
    run(writer.to("other", other), checkpoint)
    query_id, first = recorded(checkpoint, 0)
    assert sink.batches[0] == SinkBatch(query_id, 0, first, "new", "old")
    assert other.batches[0] == SinkBatch(query_id, 0, first, "other")


def test_a_sink_has_to_be_a_python_sink(session: SparkSession) -> None:
    with pytest.raises(TypeError, match="must be a PythonSink"):
        numbers(session).sink(lambda df, batch_id: None)  # type: ignore[arg-type]
