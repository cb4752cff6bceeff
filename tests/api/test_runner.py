"""`penstock run` with an unmodified script, where the process matters in a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.api.failure_report import advice
from penstock.api.runner import Outcome, run_script
from penstock.api.spark_options import NO_OPTIONS
from penstock.errors import PaceError, PenstockError, SinkAheadError
from tests.streams import eventually

STREAMING_JOB = """
import logging, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def remember(batch, batch_id):
    logging.getLogger("penstock.of_the_test").warning("in the batch")
    with open(sys.argv[1], "a") as out:
        print(batch_id, batch.count(), spark.conf.get("spark.sql.shuffle.partitions"), file=out)

query = (
    spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    .writeStream.foreachBatch(remember)
    .option("checkpointLocation", sys.argv[2])
    .queryName("remembered")
    .start()
)
with open(sys.argv[1], "a") as out:
    print(type(query).__module__, file=out)
query.awaitTermination()
"""


WITH_OWN_HANDLER = """
import signal
from pyspark.sql import SparkSession

signal.signal(signal.SIGTERM, lambda number, frame: print("own handler"))
SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
signal.raise_signal(signal.SIGTERM)
"""

LIKE_SPARK = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN "
"""The prefix of a line in Spark's log."""


def _run(*arguments: str | Path, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock.cli", "run", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)


def _lines(path: Path) -> Sequence[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(signal.SIGTERM, Outcome.TERMINATED), (signal.SIGINT, Outcome.INTERRUPTED)],
)
def test_an_unmodified_script_runs_on_penstock(
    tmp_path: Path, number: signal.Signals, outcome: Outcome
) -> None:
    job, out, checkpoint = tmp_path / "job.py", tmp_path / "out", tmp_path / "checkpoint"
    job.write_text(STREAMING_JOB)
    setting = "spark.sql.shuffle.partitions=3"
    with (tmp_path / "err").open("wb") as err:
        child = _run("--conf", setting, job, out, checkpoint, stderr=err)
    try:
        eventually(lambda: len(_lines(out)) >= 3, "two batches")
        child.send_signal(number)
        assert child.wait(60) == outcome
    finally:
        child.kill()
    stderr = (tmp_path / "err").read_text()
    assert stderr.startswith(f"penstock: {job} runs on Penstock {penstock.__version__}\n")
    assert re.search(f"(?m)^{LIKE_SPARK}penstock.api.advice: A foreachBatch function", stderr)
    of_batch = re.escape("penstock.of_the_test: [remembered, batch 1] in the batch")
    assert re.search(f"(?m)^{LIKE_SPARK}{of_batch}$", stderr)
    assert _lines(out)[0] == "penstock.api.query"
    assert _lines(out)[1] == "0 5 3"
    # Stopped at the batch boundary: every planned batch is committed.
    assert sorted(os.listdir(checkpoint / "offsets")) == sorted(os.listdir(checkpoint / "commits"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", Outcome.ENDED),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('no')", Outcome.SCRIPT_FAILED),
        ("raise ValueError('broken')", Outcome.SCRIPT_FAILED),
        ("raise KeyboardInterrupt", Outcome.INTERRUPTED),
        ("from penstock import PenstockError\nraise PenstockError('died')", Outcome.QUERY_FAILED),
        ("import sys\nassert sys.argv[1:] == ['a', '-b']", Outcome.ENDED),
        ("assert __name__ == '__main__'", Outcome.ENDED),
    ],
)
def test_the_exit_code_for_each_end_of_a_script(tmp_path: Path, body: str, code: int) -> None:
    job = tmp_path / "job.py"
    job.write_text(body)
    try:
        assert run_script(job, ["a", "-b"]) == code
    finally:
        penstock.uninstall()


SIGNALLED_WITHOUT_TERMINAL = """
import io, signal, sys

class Closed(io.StringIO):
    def write(self, text):
        raise OSError(5, "Input/output error")

before, sys.stderr = sys.stderr, Closed()
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    sys.stderr = before
"""


def test_a_signal_is_handled_when_standard_error_is_closed(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SIGNALLED_WITHOUT_TERMINAL)
    try:
        assert run_script(tmp_path / "job.py") == Outcome.TERMINATED
    finally:
        penstock.uninstall()


FAILING_JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def write(batch, batch_id):
    if batch_id == 1:
        raise KeyError("customer_id")

query = (
    spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    .writeStream.foreachBatch(write)
    .option("checkpointLocation", sys.argv[1])
    .start()
)
query.awaitTermination()
"""


def test_the_report_of_a_failure_ends_with_the_command_to_run(tmp_path: Path) -> None:
    job, checkpoint = tmp_path / "a job.py", tmp_path / "checkpoint"
    job.write_text(FAILING_JOB)
    run = [sys.executable, "-m", "penstock.cli", "run", "--conf", "spark.sql.shuffle.partitions=2"]
    ended = subprocess.run([*run, job, checkpoint, "-x"], capture_output=True, text=True)
    assert ended.returncode == Outcome.QUERY_FAILED, ended.stderr
    assert ended.stderr.count("Traceback (most recent call last):") == 1
    assert ended.stderr.count('raise KeyError("customer_id")') == 1
    error, *advice = ended.stderr.splitlines()[-4:]
    # Spark 3.5 has no condition for an error of the function; its text is that of py4j.
    text = r"(in foreach batch sink\. Reason|by the Python Proxy\. Return Message)"
    assert re.search(f"{text}: KeyError: 'customer_id'$", error)
    assert advice == [
        f"penstock: batch 1 failed and will run again at the next start. The checkpoint is "
        f"{checkpoint}.",
        "penstock: to find the part of the batch that fails, run:",
        f"    penstock bisect --checkpoint {checkpoint} --batch 1 --with-sink "
        f"--conf spark.sql.shuffle.partitions=2 '{job}' -- {checkpoint} -x",
    ]


@pytest.mark.since("4.2", "a check that `metadata` exists")
def test_the_report_of_an_unusable_checkpoint_recommends_verify(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, checkpoint = tmp_path / "job.py", tmp_path / "checkpoint"
    job.write_text(FAILING_JOB)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    assert run_script(job, [str(checkpoint)]) == Outcome.QUERY_FAILED
    printed = capsys.readouterr().err
    assert printed.count("Traceback (most recent call last):") == 1
    assert "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE]" in printed
    assert printed.splitlines()[-1] == f"    penstock checkpoint verify {checkpoint}"


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (SinkAheadError("truncate its log"), ["penstock: the checkpoint is /data/c."]),
        (
            PaceError("the source has no limit"),
            [
                "penstock: no batch was running. The checkpoint is /data/c. To see whether a "
                "restart from it is possible, run:",
                "    penstock checkpoint verify /data/c",
            ],
        ),
    ],
)
def test_an_error_outside_of_a_batch_is_not_blamed_on_the_checkpoint(
    error: PenstockError, lines: list[str]
) -> None:
    setattr(error, "checkpoint", "file:/data/c")  # noqa: B010, only some classes declare it
    assert advice(error, Path("job.py"), [], NO_OPTIONS) == lines


def test_a_handler_that_the_script_has_set_before_its_session_is_kept(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WITH_OWN_HANDLER)
    command = [sys.executable, "-m", "penstock.cli", "run", str(tmp_path / "job.py")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "own handler\n"), ended.stderr
