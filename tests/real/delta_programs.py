"""Programs from Delta to Delta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENT_FILES, event
from tests.real.lake_programs import (
    LakeProgram,
    Step,
    apply_step,
    create,
    delta_table,
    read_delta,
)
from tests.real.lake_sinks import DeltaSink

CREATE = create("delta")
PLAIN: Sequence[Sequence[Step]] = (
    (CREATE, EVENT_FILES[0], EVENT_FILES[1]),
    (EVENT_FILES[2],),
    (EVENT_FILES[3],),
)
"""The first batch is the snapshot of the table, the later ones are its versions."""

_LATER = (event("e", 12, 70), event("a", 13, 71))
CHANGED: Sequence[Sequence[Step]] = (
    PLAIN[0],
    ("UPDATE {table} SET value = value + 100 WHERE key = 'a'", EVENT_FILES[2]),
    ("DELETE FROM {table} WHERE key = 'b'", "OPTIMIZE {table}", EVENT_FILES[3], _LATER),
)
_CHANGE_FEED = create("delta", "TBLPROPERTIES (delta.enableChangeDataFeed = true)")
_DELETION_VECTORS = create("delta", "TBLPROPERTIES (delta.enableDeletionVectors = true)")


def _program(
    name: str,
    build: Callable[[Input], DataFrame],
    rounds: Sequence[Sequence[Step]] = PLAIN,
    **more: Any,
) -> LakeProgram:
    sink = more.pop("sink", DeltaSink())
    program = Program(name, build, {}, rounds=len(rounds), sink=sink, **more)
    return LakeProgram(program, delta_table, rounds)


def _rows(**options: Any) -> Callable[[Input], DataFrame]:
    """Reads the table, one file per batch unless the options say otherwise."""
    return lambda source: read_delta(source, **(options or {"maxFilesPerTrigger": 1}))


def _watched(source: Input) -> DataFrame:
    rows: DataFrame = read_delta(source, maxFilesPerTrigger=1, withEventTimeOrder="true")
    return rows.withWatermark("time", "10 seconds")


def _counts(source: Input) -> DataFrame:
    rows: DataFrame = read_delta(source, maxFilesPerTrigger=1)
    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


def _windows(source: Input) -> DataFrame:
    windows = _watched(source).groupBy(F.window("time", "10 seconds"), "key").count()
    return windows.select(F.col("window.start").alias("start"), "key", "count")


def _by_name(source: Input) -> DataFrame:
    """Reads the table by a name in the catalog."""
    name = f"events_{abs(hash(source.directory))}"
    path = source.path("events")
    source.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{path}'")
    return source.spark.readStream.option("maxFilesPerTrigger", 1).table(name)


def _narrow(source: Input) -> DataFrame:
    """A column of a narrower type than that of the table, which the sink has to cast."""
    rows: DataFrame = read_delta(source, maxFilesPerTrigger=1)
    return rows.select("time", "key", F.col("value").cast("int").alias("value"))


class WideTable(DeltaSink):
    """A table that exists before the query, with other types and a generated column."""

    def start(self, writer: Any, outlet: Any) -> Any:
        table = f"delta.`{outlet.directory}`"
        if not outlet.directory.exists():
            columns = "time TIMESTAMP, key STRING, value LONG, day DATE"
            generated = "GENERATED ALWAYS AS (CAST(time AS DATE))"
            statement = f"CREATE TABLE {{table}} ({columns} {generated}) USING delta"
            apply_step(outlet.session, table, statement)
        return super().start(writer, outlet)


PROGRAMS: tuple[LakeProgram, ...] = (
    _program("delta-append", _rows()),
    _program("delta-max-bytes", _rows(maxBytesPerTrigger="1b")),
    _program("delta-max-files-and-bytes", _rows(maxFilesPerTrigger=2, maxBytesPerTrigger="1g")),
    _program("delta-no-limit", _rows(maxFilesPerTrigger=1000)),
    _program("delta-starting-version", _rows(startingVersion="2")),
    _program("delta-complete", _counts, output_mode="complete"),
    _program("delta-windows", _windows),
    _program("delta-to-table", _rows(), sink=DeltaSink(in_catalog=True)),
    _program("delta-from-table", _by_name, sink=DeltaSink(in_catalog=True)),
    _program("delta-partitioned", _rows(), sink=DeltaSink(partition_by=("key",))),
    _program("delta-cast-and-generated", _narrow, sink=WideTable()),
    _program("delta-ignore-changes", _rows(ignoreChanges="true"), CHANGED),
    _program("delta-skip-change-commits", _rows(skipChangeCommits="true"), CHANGED),
    _program(
        "delta-change-feed",
        _rows(readChangeFeed="true"),
        ((_CHANGE_FEED, *PLAIN[0][1:]), *CHANGED[1:]),
    ),
    _program(
        "delta-deletion-vectors",
        _rows(skipChangeCommits="true"),
        ((_DELETION_VECTORS, *PLAIN[0][1:]), *CHANGED[1:]),
    ),
)
