"""Programs that drop duplicates."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_ONLY, ROCKSDB


def for_ever(source: Input) -> DataFrame:
    return source.stream().dropDuplicates(["key", "value"])


def with_watermark(source: Input) -> DataFrame:
    events = source.stream().withWatermark("time", "10 seconds")
    return events.dropDuplicates(["key", "value", "time"])


def within_watermark(source: Input) -> DataFrame:
    events = source.stream().withWatermark("time", "10 seconds")
    return events.dropDuplicatesWithinWatermark(["key", "value"])


PROGRAMS = (
    Program("dedup", for_ever, EVENTS_ONLY, stateful=True, extended=True),
    Program("dedup-with-watermark", with_watermark, EVENTS_ONLY, stateful=True),
    Program("dedup-within-watermark", within_watermark, EVENTS_ONLY, stateful=True),
    Program(
        "dedup-rocksdb", with_watermark, EVENTS_ONLY, conf=ROCKSDB, stateful=True, extended=True
    ),
    Program("dedup-update", for_ever, EVENTS_ONLY, "update", stateful=True, extended=True),
)
