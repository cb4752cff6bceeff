"""Programs from Iceberg to Iceberg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENT_FILES
from tests.real.lake_programs import LakeProgram, Step, create, iceberg_table, read_iceberg
from tests.real.lake_sinks import IcebergSink

ONE_FILE = {"streaming-max-files-per-micro-batch": 1}
CREATE = create("iceberg")
PLAIN: Sequence[Sequence[Step]] = (
    (CREATE, EVENT_FILES[0], EVENT_FILES[1]),
    (EVENT_FILES[2],),
    (EVENT_FILES[3],),
)
CHANGED: Sequence[Sequence[Step]] = (
    PLAIN[0],
    ("DELETE FROM {table} WHERE key = 'a'", EVENT_FILES[2]),
    ("INSERT OVERWRITE {table} SELECT * FROM {table} WHERE key = 'b'", EVENT_FILES[3]),
)
_SKIPPING = {
    "streaming-skip-delete-snapshots": "true",
    "streaming-skip-overwrite-snapshots": "true",
}
_FANOUT = {"fanout-enabled": "true"}


def _program(
    name: str,
    build: Callable[[Input], DataFrame],
    rounds: Sequence[Sequence[Step]] = PLAIN,
    **more: Any,
) -> LakeProgram:
    sink = more.pop("sink", IcebergSink())
    program = Program(name, build, {}, rounds=len(rounds), sink=sink, **more)
    return LakeProgram(program, iceberg_table, rounds)


def _rows(**options: Any) -> Callable[[Input], DataFrame]:
    return lambda source: read_iceberg(source, **(options or ONE_FILE))


def _counts(source: Input) -> DataFrame:
    rows: DataFrame = read_iceberg(source, **ONE_FILE)
    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


def _windows(source: Input) -> DataFrame:
    rows: DataFrame = read_iceberg(source, **ONE_FILE)
    watched = rows.withWatermark("time", "10 seconds")
    windows = watched.groupBy(F.window("time", "10 seconds"), "key").count()
    return windows.select(F.col("window.start").alias("start"), "key", "count")


def _by_name(source: Input) -> DataFrame:
    return source.spark.readStream.options(**ONE_FILE).table(iceberg_table(source))


PROGRAMS: tuple[LakeProgram, ...] = (
    _program("iceberg-append", _rows()),
    _program("iceberg-max-rows", _rows(**{"streaming-max-rows-per-micro-batch": 4})),
    _program("iceberg-no-limit", _rows(**{"split-size": 134217728})),
    _program("iceberg-from-timestamp", _rows(**{"stream-from-timestamp": 0, **ONE_FILE})),
    _program("iceberg-complete", _counts, output_mode="complete"),
    _program("iceberg-windows", _windows),
    _program("iceberg-from-table", _by_name),
    _program(
        "iceberg-partitioned",
        _rows(),
        sink=IcebergSink(partition_by=("key",), options=_FANOUT),
    ),
    _program("iceberg-skip-changes", _rows(**_SKIPPING, **ONE_FILE), CHANGED),
)
