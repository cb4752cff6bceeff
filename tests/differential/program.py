"""A program of the differential suite: a query and its input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.differential.sinks import CollectingSink, Sink

Row = Mapping[str, object]
File = Sequence[Row]
Files = Sequence[File | None]
"""The input files of a stream in order; None stands for a batch without a file."""

EVENTS = "time TIMESTAMP, key STRING, value LONG"


class Aspect(Enum):
    """An aspect of a run that is compared."""

    ROWS = "rows in the sink, by batch"
    OFFSETS = "offset log"
    COMMITS = "commit log"
    SOURCE_LOGS = "logs of the sources"
    PROGRESS = "progress"
    STATE = "state"
    SCHEMES = "schemes of local paths in the checkpoint"


@dataclass(frozen=True)
class Input:
    """The input of the build function of a program."""

    spark: SparkSession
    directory: Path

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def stream(
        self,
        name: str = "events",
        schema: str | None = EVENTS,
        format: str = "json",
        *,
        called: str | None = None,
    ) -> DataFrame:
        """A stream of files, one per batch; `called` is the name of the source."""
        reader = self.spark.readStream.format(format).option("maxFilesPerTrigger", 1)
        if called is not None:
            reader = reader.name(called)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load(self.path(name))


CORE = frozenset({"projection", "tumbling-append", "join-left", "pandas-with-state-event-time"})
"""The programs that every line of Spark has to run before a change is merged."""


@dataclass(frozen=True)
class Program:
    """A query, its input, and the aspects that are not compared (`skip`).

    The files of each stream are distributed over `rounds`: in each round its files are written and
    the query is started with `availableNow`; a batch reads one file of each stream. The columns in
    `times` hold the current time and are compared by their distance to the batch timestamp.
    `since` is the first line of Spark that can run it.
    """

    name: str
    build: Callable[[Input], DataFrame]
    inputs: Mapping[str, Files]
    output_mode: str = "append"
    rounds: int = 1
    format: str = "json"
    conf: Mapping[str, str] = field(default_factory=dict)
    sink: Sink = field(default_factory=CollectingSink)
    sink_name: str | None = None
    times: tuple[str, ...] = ()
    state_variables: tuple[str, ...] = ()
    stateful: bool = False
    extended: bool = False
    since: str = "3.5"
    skip: frozenset[Aspect] = frozenset()

    def marks(self) -> list[pytest.MarkDecorator]:
        """The marks of a test that runs it."""
        marks = [pytest.mark.since(self.since, self.name)]
        if self.name in CORE:
            marks.append(pytest.mark.core)
        return [*marks, pytest.mark.extended] if self.extended else marks

    def __str__(self) -> str:
        return self.name
