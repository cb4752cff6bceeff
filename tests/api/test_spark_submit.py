"""A program given to `spark-submit`, in client mode, runs on Penstock after `install()`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

JOB = """
import sys
import penstock
from pyspark.sql import SparkSession

penstock.install()
spark = SparkSession.builder.getOrCreate()
query = (
    spark.readStream.schema("n int").json(sys.argv[1])
    .writeStream.format("parquet").option("path", sys.argv[2])
    .option("checkpointLocation", sys.argv[3])
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
rows = spark.read.parquet(sys.argv[2]).count()
print(type(query).__module__, spark.conf.get("spark.app.name"), rows)
"""


def test_a_submitted_program_runs_on_penstock(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    orders = tmp_path / "in"
    orders.mkdir()
    (orders / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[1]", "--name", "submitted", "--conf", "spark.ui.enabled=false"]
    ran = subprocess.run(
        [submit, *options, job, orders, tmp_path / "out", tmp_path / "checkpoint"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "penstock.api.query submitted 2" in ran.stdout.splitlines()
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
