"""A file source and a file sink on S3, in a process that is killed again and again."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from tests.real.s3 import BUCKET, S3Server
from tests.stores.parquet_job import start_copy
from tests.stores.places import started
from tests.streams import column, eventually

KILLS = 10
FILES = 4 * KILLS


@pytest.mark.parametrize("seed", [1])
def test_every_row_is_there_once_after_ten_kills(
    spark: SparkSession, s3: S3Server, s3_conf: dict[str, str], seed: int
) -> None:
    rng = random.Random(seed)
    prefix = f"copy-{uuid.uuid4().hex[:8]}"
    home = f"s3a://{BUCKET}/{prefix}"
    numbers = spark.range(0, 10 * FILES, 1, FILES).withColumnRenamed("id", "n")
    numbers.write.parquet(f"{home}/in")
    for _ in range(KILLS):
        run_until_killed(s3, home, prefix, rng, s3_conf)
    start_copy(spark, home).awaitTermination()
    assert column(spark.read.parquet(f"{home}/out")) == list(range(10 * FILES))


def run_until_killed(
    s3: S3Server, home: str, prefix: str, rng: random.Random, conf: Mapping[str, str]
) -> None:
    """Run the job and kill it a random number of requests after its query has started."""
    with started("parquet_job", home, json.dumps(conf)) as process:
        s3.forget()
        wanted = rng.randint(1, 150)
        eventually(
            lambda: len(s3.requests()) >= wanted or process.poll() is not None, "its requests"
        )
