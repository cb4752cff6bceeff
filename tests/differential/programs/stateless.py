"""Programs that keep no state between batches."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.differential.program import Input, Program
from tests.differential.programs.data import EVENTS_ONLY


def projection(source: Input) -> DataFrame:
    return source.stream().select("key", (F.col("value") * 2).alias("twice"), "time")


def filtered(source: Input) -> DataFrame:
    return source.stream().where("value > 4 AND key <> 'c'")


def exploded(source: Input) -> DataFrame:
    events = source.stream()
    return events.select("key", F.explode(F.sequence(F.lit(1), F.col("value"))).alias("n"))


PROGRAMS = (
    Program("projection", projection, EVENTS_ONLY),
    Program("filter", filtered, EVENTS_ONLY),
    Program("explode", exploded, EVENTS_ONLY),
)
