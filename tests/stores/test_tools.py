"""`penstock checkpoint` on checkpoints that Spark and Penstock have written to S3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from penstock import StreamingQueryException, write_stream
from penstock.checkpoint.store_lock import CHANGED, CHANGING, RUNNING
from penstock.checkpoint.tools.activity import exclusive
from penstock.checkpoint.tools.locations import location_of
from penstock.cli.main import app
from penstock.errors import CheckpointInUseError
from penstock.spark.jvm.support import S3StateFiles, s3_state_files
from tests.real.s3 import BUCKET, S3Server
from tests.stores.numbers_job import writer_to
from tests.stores.places import OnS3, finish_and_check, job
from tests.streams import Numbers, eventually

ROWS = 5


@pytest.fixture(autouse=True)
def credentials(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a user of the server, without a profile."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def run(*words: object, code: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["checkpoint", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def json_of(*words: object, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code))


def counting(spark: SparkSession, location: str, engine: str, batches: int, table: str) -> None:
    """Count rows by key, for some batches; the result is a table in memory."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    counts = rate.groupBy((F.col("value") % 3).alias("k")).count()
    writer = counts.writeStream if engine == "spark" else write_stream(counts)
    writer = writer.format("memory").queryName(table).outputMode("complete")
    query = writer.option("checkpointLocation", location).start()
    eventually(lambda: len(query.recentProgress) >= batches, "the batches")
    query.stop()


def state_keys(s3: S3Server, place: OnS3) -> dict[str, str]:
    return {key: "" for key in s3.keys(f"{place.prefix}/state/") if not key.endswith("/")}


@pytest.mark.parametrize("engine", ["spark", "penstock"])
def test_a_stateful_checkpoint_is_rewound_and_continued(
    spark: SparkSession, s3: S3Server, place: OnS3, engine: str
) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        counting(spark, place.location, engine, 4, f"before_{engine}")
        s3.forget()
        report = json_of("show", place.location)
        requests = s3.requests()
        assert {request["method"] for request in requests} <= {"GET", "HEAD"}
        assert report["operators"][0]["partitions"] == 2
        assert report["rewindTargets"]
        assert json_of("verify", place.location)["findings"] == []
        before = set(s3.keys(f"{place.prefix}/"))
        run("rewind", place.location, "--to", 1, "--yes", "--stopped")
        assert place.entries("offsets")[-1] == 1
        assert json_of("verify", place.location)["willRestart"]
        run("undo", place.location, "--yes", "--stopped")
        assert set(s3.keys(f"{place.prefix}/")) == before | {f"{place.prefix}/{CHANGED}"}
        run("rewind", place.location.replace("s3a:", "s3:"), "--to", 1, "--yes", "--stopped")
        other = "penstock" if engine == "spark" else "spark"
        for number, continuing in enumerate((engine, other)):
            counting(spark, place.location, continuing, 1, f"after_{engine}_{number}")
        assert place.entries("offsets")[:4] == [0, 1, 2, 3]
        assert json_of("verify", place.location)["willRestart"]
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")


def test_a_fork_runs_on_its_own(spark: SparkSession, s3: S3Server, place: OnS3, out: Path) -> None:
    query = writer_to(out, spark, Numbers(4, at_most=1), place.location).start()
    query.processAllAvailable()
    query.stop()
    copy = OnS3(s3)
    document = json_of("fork", place.location, copy.location, "--at", 1)
    assert document["nextBatch"] == 2
    assert "query id" in run("diff", place.location, copy.location, code=1)
    finish_and_check(spark, copy, out, more=2)
    assert place.entries("offsets") == [0, 1, 2, 3]


def test_a_running_query_and_a_command_respect_each_other(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path
) -> None:
    numbers = Numbers(3, at_most=1)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    assert f"{place.prefix}/{RUNNING}" in s3.keys(place.prefix)
    assert "In use by query" in run("rewind", place.location, "--to", 0, "--yes", code=1)
    assert "In use by query" in run("show", place.location) or query.isActive
    query.stop()
    assert f"{place.prefix}/{RUNNING}" not in s3.keys(place.prefix)
    with exclusive(location_of(place.location), "rewind --to 0", stopped=True):
        with pytest.raises(StreamingQueryException, match="is being changed by") as caught:
            writer_to(out, spark, numbers, place.location).start().awaitTermination()
        assert isinstance(caught.value.__cause__, CheckpointInUseError)
    assert f"{place.prefix}/{CHANGING}" not in s3.keys(place.prefix)
    finish_and_check(spark, place, out, more=1)


def test_a_query_that_runs_on_is_stopped_by_a_rewind(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path
) -> None:
    """With --stopped, although it is not."""
    numbers = Numbers(3, at_most=1)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    run("rewind", place.location, "--to", 0, "--yes", "--stopped")
    numbers.available = 4
    with pytest.raises(StreamingQueryException, match="offsets/2 is gone"):
        query.awaitTermination()
    assert place.entries("offsets") == [0]
    finish_and_check(spark, place, out, more=3)


def test_a_killed_query_leaves_a_record(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path, s3_conf: dict[str, str]
) -> None:
    with job(place, out, s3_conf):
        eventually(lambda: len(place.entries("commits")) > 2, "three batches")
    assert "add --stopped" in run("rewind", place.location, "--to", 1, "--yes", code=1)
    assert "Would remove the lock of query" in run("unlock", place.location)
    run("rewind", place.location, "--to", 1, "--yes", "--stopped")
    assert "is not locked" in run("unlock", place.location)
    finish_and_check(spark, place, out)


def test_doctor_knows_how_state_files_are_written(spark: SparkSession) -> None:
    assert s3_state_files(spark) == S3StateFiles(has_manager=False, uses_manager=False)


def test_options_and_errors(s3: S3Server, place: OnS3, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is nothing below" in run("show", place.location, code=2)
    assert "no such bucket" in run("show", f"s3://{BUCKET}-missing/x", code=2)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    endpoint = ("--option", f"endpoint={s3.endpoint}")
    assert "There is nothing below" in run("show", place.location, *endpoint, code=2)
    s3.fail("expired", times=100)
    assert "renew them" in run("show", place.location, *endpoint, code=2)
