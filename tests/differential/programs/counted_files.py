"""A data source written in Python. Spark 3.5 does not have these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tests.differential.programs.workers import send_by_value


class Lines(InputPartition):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class FileCounter(DataSourceStreamReader):
    """Gives the numbers up to the number of files that are in a directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:
        return {"files": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {"files": sum(1 for _ in Path(self._path).glob("[0-9]*"))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Lines(number) for number in range(start["files"], end["files"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, Lines)
        yield (partition.number,)

    def commit(self, end: dict[str, int]) -> None:
        pass


class CountedFiles(DataSource):
    @classmethod
    def name(cls) -> str:
        return "counted_files"

    def schema(self) -> str:
        return "number INT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FileCounter(self.options["path"])


send_by_value(__name__)
