"""Two processes on one checkpoint, on S3 and on HDFS: exactly one of them wins each batch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import StreamingQuery
from tests.real.hdfs import HdfsCluster
from tests.real.s3 import S3Server
from tests.stores.numbers_job import writer_to
from tests.stores.places import OnHdfs, OnS3, Place, finish_and_check, job
from tests.streams import Numbers, eventually


@pytest.fixture(params=["s3", "hdfs"])
def place(request: pytest.FixtureRequest, spark: SparkSession) -> Place:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return OnS3(server)
    cluster: HdfsCluster = request.getfixturevalue("hdfs")
    return OnHdfs(cluster, spark)


def test_of_two_processes_exactly_one_goes_on(
    spark: SparkSession, place: Place, out: Path, s3_conf: dict[str, str]
) -> None:
    with job(place, out, s3_conf) as other:
        eventually(lambda: len(place.entries("commits")) > 1, "two batches there")
        mine = writer_to(out, spark, Numbers(1_000_000, at_most=1), place.location).start()
        eventually(lambda: not mine.isActive or other.poll() is not None, "one of them to fail")
        told = error_of(mine, other)
        assert told.startswith("ConcurrentUpdateError"), told
        assert "Multiple streaming jobs detected for" in told
        done = place.entries("commits")[-1]
        eventually(lambda: place.entries("commits")[-1] > done, "the other to go on")
        mine.stop()
    finish_and_check(spark, place, out)


def error_of(mine: StreamingQuery, other: subprocess.Popen[str]) -> str:
    """The error of the one that has failed."""
    if mine.isActive:
        assert other.stdout is not None
        return other.stdout.read()
    error = mine.exception()
    return f"{type(error and error.__cause__).__name__} {error}"
