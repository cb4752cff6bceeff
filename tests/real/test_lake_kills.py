"""Pipelines into Delta and Iceberg tables, killed again and again while their input goes on."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.pipelines import Rows
from tests.real.feed import Feed, SteadyFeed
from tests.real.kills import KilledJob, Output
from tests.real.lake_feed import LakeFeed
from tests.real.lake_job import LakeJob
from tests.real.lake_pipelines import Feeds, Lakehouse, row_of
from tests.real.lakehouses import ICEBERG_CATALOG
from tests.real.reports import report
from tests.real.topics import Topics, new_name

SECONDS_PER_BLOCK = 5.0
BLOCKS_PER_COLUMN = 16


class LakeOutput(Output):
    """The tables that the pipelines of a job write."""

    def __init__(self, spark: SparkSession, job: LakeJob, feeds: Feeds) -> None:
        self._spark = spark
        self._job = job
        self._feeds = feeds
        self._pipelines = {pipeline.name: pipeline for pipeline in job.pipelines}

    def names(self) -> Iterable[str]:
        return self._pipelines

    def expected(self, name: str) -> Rows:
        return self._pipelines[name].expected(self._feeds)

    def written(self, name: str) -> Rows:
        table = self._job.output(self._pipelines[name])
        return Counter(map(row_of, Lakehouse(self._job.lakehouse).rows(self._spark, table)))

    def extra_rows(self, name: str) -> Rows:
        return self._pipelines[name].extra(self.written(name), self._feeds)


def _feeds(spark: SparkSession, job: LakeJob, kafka: Feed) -> Feeds:
    lakehouse = Lakehouse(job.lakehouse)
    table = LakeFeed(spark, lakehouse.sql_name(job.table), job.lakehouse)
    growing = None
    if any(pipeline.follows_schema for pipeline in job.pipelines):
        name = lakehouse.sql_name(job.growing_table)
        growing = LakeFeed(spark, name, job.lakehouse, BLOCKS_PER_COLUMN)
    return Feeds(kafka, table, growing)


@pytest.mark.parametrize(
    "lakehouse",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("delta", "iceberg")],
)
def test_nothing_is_lost_and_nothing_is_written_twice(
    lakehouse: str, spark: SparkSession, topics: Topics, tmp_path: Path, kills: int
) -> None:
    began = time.monotonic()
    kafka = Feed(topics, new_name("killed"))
    directory = tmp_path / new_name("job")
    house = Lakehouse(lakehouse)
    job = LakeJob(
        directory=str(directory),
        warehouse=_warehouse(spark),
        lakehouse=lakehouse,
        bootstrap_servers=topics.bootstrap_servers,
        topic=kafka.left,
        table=house.output(directory, "input"),
        growing_table=house.output(directory, "growing"),
    )
    job.save()
    feeds = _feeds(spark, job, kafka)
    killed = KilledJob(
        [sys.executable, "-m", "tests.real.lake_job", job.directory],
        directory,
        {pipeline.name: job.checkpoint(pipeline) for pipeline in job.pipelines},
        LakeOutput(spark, job, feeds),
    )
    with contextlib.ExitStack() as running:
        for feed in (feeds.kafka, feeds.table, feeds.growing_table):
            if feed is not None:
                running.enter_context(SteadyFeed(feed, SECONDS_PER_BLOCK))
        killed.kill_in_turns(kills)
    kafka.close()
    killed.finish()
    _report(job, killed, feeds, time.monotonic() - began)


def _warehouse(spark: SparkSession) -> str:
    uri = spark.conf.get(f"spark.sql.catalog.{ICEBERG_CATALOG}.warehouse", "file:///")
    assert uri is not None
    return uri.removeprefix("file://")


def _report(job: LakeJob, killed: KilledJob, feeds: Feeds, seconds: float) -> None:
    half = len(killed.strikes) // 2
    report(
        f"{job.lakehouse}: {half} kills of the process and {half} of the JVM, each of "
        f"{len(job.pipelines)} pipelines, {seconds:.0f} s; rows lost: 0, rows twice: 0"
    )
    for pipeline in job.pipelines:
        report(
            f"{job.lakehouse} {pipeline.name}: {pipeline.expected(feeds).total()} rows sent and "
            f"found; {killed.in_flight(pipeline.name)} kills with a batch planned and not committed"
        )
    if feeds.growing_table is not None:
        report(f"{job.lakehouse} schema-change: {len(feeds.growing_table.added)} columns added")
