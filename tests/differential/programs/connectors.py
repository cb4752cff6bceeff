"""Programs that differ in their sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import EVENTS, Aspect, Files, Input, Program
from tests.differential.programs.data import CLICK_FILES, EVENT_FILES, EVENTS_ONLY, STATE_IDS
from tests.differential.programs.workers import send_by_value
from tests.differential.sinks import FileSink, MemorySink, NoopSink, TableSink

NUMBERS = "key STRING, value LONG"
NUMBER_FILES: Files = (
    ({"key": "a", "value": 1}, {"key": "b", "value": 2}),
    ({"key": "c", "value": 3},),
    ({"key": "a", "value": 4}, {"key": "d", "value": 5}),
)
NUMBERS_ONLY: Mapping[str, Files] = {"events": NUMBER_FILES}


def whole_file(format: str) -> Program:
    schema = "value STRING" if format == "text" else NUMBERS

    def build(source: Input) -> DataFrame:
        return source.stream(schema=schema, format=format)

    return Program(f"source-{format}", build, NUMBERS_ONLY, format=format)


def events(source: Input) -> DataFrame:
    return source.stream()


def as_text(source: Input) -> DataFrame:
    return source.stream().select(F.concat_ws("|", "key", "value").alias("line"), "key")


def counted(source: Input) -> DataFrame:
    return source.stream().groupBy("key").count()


def windows(source: Input) -> DataFrame:
    events = source.stream().withWatermark("time", "10 seconds")
    sums = events.groupBy(F.window("time", "10 seconds")).agg(F.sum("value").alias("sum"))
    return sums.select("window.start", "sum")


def file_metadata(source: Input) -> DataFrame:
    file = "_metadata.file_name", "_metadata.file_size", "_metadata.file_modification_time"
    return source.stream().select("value", *file)


def input_file(source: Input) -> DataFrame:
    return source.stream().select("value", F.input_file_name().alias("file"))


def rate_per_batch(source: Input) -> DataFrame:
    reader = source.spark.readStream.format("rate-micro-batch")
    return reader.options(rowsPerBatch="3", startTimestamp="1000").load()


def two_streams(source: Input) -> DataFrame:
    return source.stream("events").union(source.stream("late")).select("key", "value")


def two_named_streams(source: Input) -> DataFrame:
    first = source.stream("events", called="first")
    return first.union(source.stream("late", called="second")).select("key", "value")


def python_data_source(source: Input) -> DataFrame:
    from tests.differential.programs.counted_files import CountedFiles

    source.spark.dataSource.register(CountedFiles)
    reader = source.spark.readStream.format("counted_files")
    return reader.option("path", source.path("events")).load()


OFFSET_LOG_2 = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
NAMED = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
NAMED_SINKS = {"spark.sql.streaming.queryEvolution.enableSinkEvolution": "true"}
ONE_COMES_LATE: Mapping[str, Files] = {
    "events": EVENT_FILES[:3],
    "late": (None, *CLICK_FILES[:2]),
}
FILES_AND_KEY = FileSink("parquet", EVENTS, partition_by=("key",))

PROGRAMS = (
    *(whole_file(format) for format in ("text", "csv", "json", "parquet", "orc")),
    Program("file-metadata-column", file_metadata, EVENTS_ONLY),
    Program("input-file-name", input_file, EVENTS_ONLY, extended=True),
    Program("rate-per-batch", rate_per_batch, {}, rounds=3),
    Program(
        "python-data-source",
        python_data_source,
        NUMBERS_ONLY,
        rounds=3,
        since="4.0",
        extended=True,
    ),
    Program("offset-log-2", two_streams, ONE_COMES_LATE, rounds=3, conf=OFFSET_LOG_2, since="4.2"),
    Program("named-sources", two_named_streams, ONE_COMES_LATE, rounds=3, conf=NAMED, since="4.2"),
    Program(
        "named-sources-by-name",
        two_named_streams,
        ONE_COMES_LATE,
        rounds=3,
        conf={**NAMED, **OFFSET_LOG_2},
        since="4.2",
    ),
    Program(
        "named-sink",
        events,
        EVENTS_ONLY,
        rounds=2,
        conf=NAMED_SINKS,
        sink=FileSink("json", EVENTS),
        sink_name="the_files",
        since="4.2",
    ),
    Program(
        "named-sink-state-ids",
        counted,
        EVENTS_ONLY,
        "update",
        rounds=2,
        conf={**NAMED_SINKS, **STATE_IDS},
        sink_name="the_counts",
        stateful=True,
        extended=True,
        since="4.2",
    ),
    Program("sink-noop", events, EVENTS_ONLY, sink=NoopSink(), skip=frozenset({Aspect.ROWS})),
    Program("sink-memory", events, EVENTS_ONLY, sink=MemorySink()),
    Program(
        "sink-memory-complete", counted, EVENTS_ONLY, "complete", sink=MemorySink(), extended=True
    ),
    Program("sink-memory-update", counted, EVENTS_ONLY, "update", sink=MemorySink(), extended=True),
    Program("sink-parquet", events, EVENTS_ONLY, sink=FileSink("parquet", EVENTS)),
    Program("sink-parquet-partitioned", events, EVENTS_ONLY, sink=FILES_AND_KEY, rounds=2),
    Program(
        "sink-parquet-of-windows",
        windows,
        EVENTS_ONLY,
        extended=True,
        sink=FileSink("parquet", "start TIMESTAMP, sum LONG"),
        stateful=True,
    ),
    Program("sink-json", events, EVENTS_ONLY, sink=FileSink("json", EVENTS), extended=True),
    Program("sink-csv", events, EVENTS_ONLY, sink=FileSink("csv", EVENTS), extended=True),
    Program("sink-orc", events, EVENTS_ONLY, sink=FileSink("orc", EVENTS), extended=True),
    Program(
        "sink-text-partitioned",
        as_text,
        EVENTS_ONLY,
        sink=FileSink("text", "line STRING, key STRING", partition_by=("key",)),
    ),
    Program("sink-table", events, EVENTS_ONLY, sink=TableSink(), extended=True),
)

send_by_value(__name__)
