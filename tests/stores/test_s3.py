"""A checkpoint on S3: its requests, requests that fail, and objects that disappear."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import StreamingQueryException, write_stream
from penstock.errors import CheckpointVanishedError, ConcurrentUpdateError
from tests.real.s3 import BUCKET, OLD_BUCKET, S3Server
from tests.stores.numbers_job import writer_to
from tests.stores.places import OnS3, finish_and_check, job
from tests.streams import Numbers, eventually


def test_a_steady_batch_makes_three_requests(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path
) -> None:
    numbers = Numbers(2)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    for count in range(3, 6):
        s3.forget()
        numbers.available = count
        query.processAllAvailable()
        paths = [f"{r['method']} {r['path'].partition(place.prefix)[2]}" for r in s3.requests()]
        batch = count - 2
        assert paths == [
            f"HEAD /offsets/{batch - 1}",
            f"PUT /offsets/{batch}",
            f"PUT /commits/{batch}",
        ]
    query.stop()


def test_what_is_written_is_what_spark_writes(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path
) -> None:
    """Spark's engine continues from the checkpoint, and Penstock from what Spark has written."""

    def run(engine: str) -> None:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
        writer = rows.writeStream if engine == "spark" else write_stream(rows)
        query = writer.format("noop").option("checkpointLocation", place.location)
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()

    run("penstock")
    run("spark")
    run("penstock")
    assert place.entries("commits") == place.entries("offsets")
    assert s3.read(f"{place.prefix}/commits/0") == 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.mark.parametrize("log", ["offsets", "commits"])
@pytest.mark.parametrize("kind", ["fail", "lost", "rejected-after", "slow-down"])
def test_a_request_that_fails_once_does_not_matter(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path, kind: str, log: str
) -> None:
    numbers = Numbers(1)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    s3.fail(kind, f"{place.prefix}/{log}/1$", "PUT")
    numbers.available = 2
    query.processAllAvailable()
    query.stop()
    finish_and_check(spark, place, out)


@pytest.mark.parametrize("kind", ["slow-down", "expired"])
@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_store_that_answers_no_more_fails_the_query_and_loses_nothing(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path, kind: str, log: str
) -> None:
    """The write itself is carried out, and no request for it after that: it remains unknown."""
    numbers = Numbers(1)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    entry = f"{place.prefix}/{log}/1$"
    s3.fail_all(
        {"kind": "lost", "path": entry, "method": "PUT", "times": 1},
        {"kind": kind, "path": entry, "times": 1_000_000},
    )
    numbers.available = 2
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    assert not isinstance(caught.value.__cause__, ConcurrentUpdateError)
    s3.forget()
    assert place.entries(log) == [0, 1]
    finish_and_check(spark, place, out)


def test_objects_that_are_deleted_are_missed_before_the_next_batch(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path
) -> None:
    numbers = Numbers(1)
    query = writer_to(out, spark, numbers, place.location).start()
    query.processAllAvailable()
    for key in s3.keys(f"{place.prefix}/"):
        s3.delete(key)
    numbers.available = 2
    with pytest.raises(StreamingQueryException, match="offsets/0 is gone") as caught:
        query.awaitTermination()
    assert isinstance(caught.value.__cause__, CheckpointVanishedError)
    assert s3.keys(f"{place.prefix}/") == []
    assert [path.name for path in out.iterdir()] == ["0"]


def test_a_process_killed_between_the_write_and_its_answer(
    spark: SparkSession, s3: S3Server, place: OnS3, out: Path, s3_conf: dict[str, str]
) -> None:
    s3.fail("held", f"{place.prefix}/offsets/2$", "PUT")
    with job(place, out, s3_conf):
        eventually(lambda: 2 in place.entries("offsets"), "the write")
        assert place.entries("commits") == [0, 1]
    finish_and_check(spark, place, out)


def test_a_connector_that_cannot_write_conditionally_is_warned_of_once(
    spark: SparkSession, s3: S3Server, out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("first", "second"):
        location = f"s3a://{OLD_BUCKET}/{name}"
        query = writer_to(out, spark, Numbers(1), location).start()
        query.processAllAvailable()
        query.stop()
    warnings = [
        r.getMessage() for r in caplog.records if "does not write conditionally" in r.getMessage()
    ]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"The log entries of s3a://{OLD_BUCKET}/first are written by")
    puts = [r["path"] for r in s3.requests() if r["method"] == "PUT" and "/offsets/" in r["path"]]
    assert any(path.endswith(".tmp") for path in puts)


def test_the_bucket_is_named_in_the_error(spark: SparkSession, s3: S3Server, out: Path) -> None:
    location = f"s3a://{BUCKET}-missing/checkpoint"
    with pytest.raises(Exception, match=f"{BUCKET}-missing"):
        writer_to(out, spark, Numbers(1), location).start().awaitTermination()
