"""Spark's Python data sources, with both reader classes, and as a sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from penstock import write_stream
from tests.streams import column, logged_offsets

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

pytestmark = pytest.mark.since("4.0", "data sources in Python")

# The classes are defined in functions, so that they are pickled by value.


def simple_counter() -> type[DataSource]:
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:
            return {"at": 0}

        def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[int]], dict[str, Any]]:
            end = min(start["at"] + 4, 10)
            return iter([(n,) for n in range(start["at"], end)]), {"at": end}

        def readBetweenOffsets(
            self, start: dict[str, Any], end: dict[str, Any]
        ) -> Iterator[tuple[int]]:
            return iter([(n,) for n in range(start["at"], end["at"])])

    class SimpleCounter(DataSource):
        @classmethod
        def name(cls) -> str:
            return "simple_counter"

        def schema(self) -> str:
            return "n int"

        def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
            return Reader()

    return SimpleCounter


def partitioned_counter() -> type[DataSource]:
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Range(InputPartition):
        def __init__(self, first: int, last: int) -> None:
            self.first, self.last = first, last

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:
            return {"at": 0}

        def latestOffset(
            self, start: dict[str, Any] | None = None, limit: Any = None
        ) -> dict[str, Any]:
            # Before Spark 4.2 it does not get its start offset.
            return {"at": 12 if start is None else min(start["at"] + 6, 12)}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            middle = (start["at"] + end["at"]) // 2
            return [Range(start["at"], middle), Range(middle, end["at"])]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            for n in range(partition.first, partition.last):
                yield (n,)

    class PartitionedCounter(DataSource):
        @classmethod
        def name(cls) -> str:
            return "partitioned_counter"

        def schema(self) -> str:
            return "n int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader()

    return PartitionedCounter


@pytest.mark.parametrize(("make", "count"), [(simple_counter, 10), (partitioned_counter, 12)])
def test_a_python_data_source_is_read_once_and_resumed(
    session: SparkSession, tmp_path: Path, checkpoint: Path, make: Any, count: int
) -> None:
    source = make()
    session.dataSource.register(source)
    out = str(tmp_path / "out")
    for _ in range(2):
        stream = session.readStream.format(source.name()).load()
        writer = write_stream(stream).format("parquet")
        query = writer.option("checkpointLocation", str(checkpoint)).start(out)
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None
    assert column(session.read.parquet(out)) == list(range(count))
    assert logged_offsets(checkpoint, 0)[0]["at"] in (4, 6, 12)


def test_a_python_data_source_can_be_the_sink(
    session: SparkSession, tmp_path: Path, checkpoint: Path
) -> None:
    directory = tmp_path / "written"
    directory.mkdir()
    session.dataSource.register(line_writer())
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = write_stream(stream.select("value")).format("line_writer")
    writer.option("directory", str(directory)).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(once=True).start()
    query.awaitTermination()
    assert (directory / "batch-0").read_text() == "5"


def line_writer() -> type[DataSource]:
    from dataclasses import dataclass

    from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

    @dataclass
    class Count(WriterCommitMessage):
        rows: int

    class Writer(DataSourceStreamWriter):
        def __init__(self, directory: str) -> None:
            self.directory = directory

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            return Count(sum(1 for _ in iterator))

        def commit(self, messages: list[Any], batchId: int) -> None:
            with open(f"{self.directory}/batch-{batchId}", "w") as file:
                file.write(str(sum(message.rows for message in messages)))

    class LineWriter(DataSource):
        @classmethod
        def name(cls) -> str:
            return "line_writer"

        def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
            return Writer(self.options["directory"])

    return LineWriter
