"""The environment of a failing program: a session, a directory and an engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.differential.runs import Engine
from tests.streams import put_file

BatchFunction = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Failure:
    """A program that raises an error, with its name in the table of the documentation.

    `since` is the first line of Spark that raises it.
    """

    name: str
    provoke: Callable[[Stage], None]
    since: str = "3.5"

    def marks(self) -> list[pytest.MarkDecorator]:
        """The marks of a test that provokes it."""
        return [pytest.mark.since(self.since, f"an error for {self.name}")]


@dataclass
class Stage:
    """The environment of one program on one engine. All its files are below `home`."""

    session: SparkSession
    engine: Engine
    home: Path
    files: int = 0
    query: Any = None

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    def put(self, *lines: str) -> None:
        """Add one input file."""
        directory = self.home / "input"
        directory.mkdir(exist_ok=True)
        put_file(directory, f"{self.files:04d}.txt", "\n".join(lines) + "\n", self.files)
        self.files += 1

    def lines(self) -> DataFrame:
        """The input as a stream of lines, one file per batch."""
        reader = self.session.readStream.option("maxFilesPerTrigger", 1)
        return reader.text(str(self.home / "input"))

    def counts(self) -> DataFrame:
        return self.lines().groupBy("value").count()

    def writer(self, df: DataFrame, mode: str = "append") -> Any:
        """A writer of the engine, with this checkpoint and an available-now trigger."""
        writer = self.engine.writer(df).outputMode(mode).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.checkpoint))

    def run(self, df: DataFrame, sink: str | BatchFunction = "noop", mode: str = "append") -> None:
        """Run a query over all available data, with a sink format or a `foreachBatch` function."""
        writer = self.writer(df, mode)
        if callable(sink):
            writer = writer.foreachBatch(sink)
        else:
            writer = writer.format(sink).option("path", str(self.home / "output"))
        self.query = None
        self.query = writer.start()
        self.query.awaitTermination()

    # Changes to the checkpoint. Checksum files are removed, so that they do not fail the read.

    def replace(self, name: str, text: str) -> None:
        """Replace the content of a file of the checkpoint."""
        path = self.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        _checksum(path).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file or a directory of the checkpoint."""
        path = self.checkpoint / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
            _checksum(path).unlink(missing_ok=True)


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")
