"""What a failing program is given: a session, a directory of its own, and the engine to run on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.differential.runs import Engine
from tests.streams import put_file

BatchFunction = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Failure:
    """A program that raises an error, by the name that the table in the docs has for it."""

    name: str
    provoke: Callable[[Stage], None]


@dataclass
class Stage:
    """Where one program fails on one engine. Everything it writes is below `home`."""

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
        """The input as a stream of texts, one file a batch."""
        reader = self.session.readStream.option("maxFilesPerTrigger", 1)
        return reader.text(str(self.home / "input"))

    def counts(self) -> DataFrame:
        return self.lines().groupBy("value").count()

    def writer(self, df: DataFrame, mode: str = "append") -> Any:
        """A writer of the engine, with this program's checkpoint and all data there is."""
        writer = self.engine.writer(df).outputMode(mode).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.checkpoint))

    def run(self, df: DataFrame, sink: str | BatchFunction = "noop", mode: str = "append") -> None:
        """Run a query over all data there is, into a format or a function."""
        writer = self.writer(df, mode)
        if callable(sink):
            writer = writer.foreachBatch(sink)
        else:
            writer = writer.format(sink).option("path", str(self.home / "output"))
        self.query = None
        self.query = writer.start()
        self.query.awaitTermination()

    # Damage, with the checksums of the files in mind.

    def replace(self, name: str, text: str) -> None:
        """Give a file of the checkpoint another content."""
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
