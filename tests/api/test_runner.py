"""`penstock run`: an unmodified script, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.api.runner import Outcome, run_script
from tests.streams import eventually

STREAMING_JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def remember(batch, batch_id):
    with open(sys.argv[1], "a") as out:
        print(batch_id, batch.count(), spark.conf.get("spark.sql.shuffle.partitions"), file=out)

query = (
    spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    .writeStream.foreachBatch(remember)
    .option("checkpointLocation", sys.argv[2])
    .start()
)
with open(sys.argv[1], "a") as out:
    print(type(query).__module__, file=out)
query.awaitTermination()
"""


def _run(*arguments: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock.cli", "run", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _lines(path: Path) -> Sequence[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_an_unmodified_script_runs_on_penstock(tmp_path: Path) -> None:
    job, out, checkpoint = tmp_path / "job.py", tmp_path / "out", tmp_path / "checkpoint"
    job.write_text(STREAMING_JOB)
    child = _run("--conf", "spark.sql.shuffle.partitions=3", job, out, checkpoint)
    try:
        eventually(lambda: len(_lines(out)) >= 3, "two batches")
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == Outcome.STOPPED
    finally:
        child.kill()
    assert _lines(out)[0] == "penstock.api.query"
    assert _lines(out)[1] == "0 5 3"
    # Stopped at the batch boundary: whatever was planned is committed.
    assert sorted(os.listdir(checkpoint / "offsets")) == sorted(os.listdir(checkpoint / "commits"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", Outcome.ENDED),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('no')", Outcome.SCRIPT_FAILED),
        ("raise ValueError('broken')", Outcome.SCRIPT_FAILED),
        ("raise KeyboardInterrupt", Outcome.STOPPED),
        ("from penstock import PenstockError\nraise PenstockError('died')", Outcome.QUERY_FAILED),
        ("import sys\nassert sys.argv[1:] == ['a', '-b']", Outcome.ENDED),
        ("assert __name__ == '__main__'", Outcome.ENDED),
    ],
)
def test_the_exit_code_tells_how_a_script_ended(tmp_path: Path, body: str, code: int) -> None:
    job = tmp_path / "job.py"
    job.write_text(body)
    import penstock

    try:
        assert run_script(job, ["a", "-b"]) == code
    finally:
        penstock.uninstall()
