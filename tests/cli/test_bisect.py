"""`penstock bisect` with a script, in this process and with its Spark session."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.spark.jvm.pyspark_api import query_context_loggers
from tests.streams import LineFiles

JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

source, checkpoint, where, out = sys.argv[1:]
spark = SparkSession.builder.getOrCreate().newSession()
spark.conf.set("spark.sql.ansi.enabled", "true")  # a cast may fail: the default since Spark 4.0
lines = spark.readStream.text(source)
print("about to start")

if Path(checkpoint).exists():  # this is to be bisected, and no other is to run
    spark.streams.resetTerminated()
    other = lines.writeStream.format("noop").option("checkpointLocation", checkpoint + "-other")
    assert not other.queryName("other").start().isActive
    spark.streams.awaitAnyTermination()

checked = lines.selectExpr("IF(value = 'bad', CAST(value AS int), length(value)) AS v")

def write(batch, batch_id):
    with open(out, "a") as file:
        for row in batch.collect():
            print(batch_id, row[0], file=file)
            if row[0] == "bad":
                raise ValueError("cannot write it")

writer = lines.writeStream.foreachBatch(write) if where == "sink" else (
    checked.writeStream.format("json").option("path", out)
)
if where == "database":
    import penstock
    sink = penstock.sinks.jdbc("jdbc:derby:memory:bisect;create=true", "lengths")
    writer = penstock.write_stream(checked).sink(sink)
query = writer.option("checkpointLocation", checkpoint).start()
try:
    query.awaitTermination()
except Exception:
    sys.exit("died")
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reverts the variable that running a script sets in this process."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", os.environ.get("PYSPARK_SUBMIT_ARGS", ""))


class Job:
    """A script over eight files that fails on one of them, in the computation or in the sink."""

    def __init__(self, directory: Path, where: str) -> None:
        self.files = LineFiles(directory / "in")
        for number in range(8):
            self.files.add(f"line {number}", *(["bad"] if number == 5 else []))
        self.script = directory / "job.py"
        self.script.write_text(JOB)
        self.checkpoint = directory / "checkpoint"
        self.out = directory / "out"
        self.arguments = [str(self.files.directory), str(self.checkpoint), where, str(self.out)]

    def run(self) -> None:
        result = CliRunner().invoke(app, ["run", str(self.script), *self.arguments])
        assert result.exit_code == 1, result.output

    def bisect(self, *options: str) -> Result:
        before = self._files()
        command = ["bisect", str(self.script), "--checkpoint", str(self.checkpoint), *options]
        result = CliRunner().invoke(app, [*command, *self.arguments])
        assert self._files() == before
        return result

    def _files(self) -> dict[Path, bytes]:
        paths = self.checkpoint.rglob("*")
        return {path: path.read_bytes() for path in paths if path.is_file()}


class Remembering(logging.Handler):
    """Keeps the records of one of PySpark's loggers while it is in use."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        found = {logger.name: logger for logger in query_context_loggers()}
        self._logger = found.get(name, logging.getLogger(name))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> list[logging.LogRecord]:
        self._logger.addHandler(self)
        return self.records

    def __exit__(self, *exc_info: object) -> None:
        self._logger.removeHandler(self)


def test_the_file_that_makes_a_job_fail_is_found(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path, "computation")
    job.run()
    written = sorted(job.out.rglob("*"))
    with Remembering("SQLQueryContextLogger") as logged_by_pyspark:
        result = job.bisect()
    assert result.exit_code == 0, result.output
    assert logged_by_pyspark == []  # a stack trace for each trial, between the lines of the report
    assert "The smallest part of batch 0 that fails:" in result.stdout
    assert f"1 file\n    file://{job.files.directory}/0005.txt\n" in result.stdout
    assert "[CAST_INVALID_INPUT] The value 'bad'" in result.stdout
    assert f"penstock checkpoint replan {job.checkpoint}" in result.stdout
    assert result.stderr.startswith("about to start\n1. 8 files, 0000.txt, ..., 0007.txt - fails:")
    assert "2. 4 files, 0000.txt, ..., 0003.txt - passes\n" in result.stderr
    assert sorted(job.out.rglob("*")) == written  # the sink got nothing
    assert not Path(f"{job.checkpoint}-other").exists()
    refused = job.bisect("--with-sink")
    assert refused.exit_code == 2
    assert "cannot run with the sink json" in refused.stderr


def test_a_sink_that_skips_known_batches_is_not_called(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path, "database")
    job.run()
    refused = job.bisect("--with-sink")
    assert refused.exit_code == 2
    assert "cannot run with the sink JdbcSink[lengths]" in refused.stderr


@pytest.mark.extended
def test_a_failing_foreach_batch_function_is_called_with_with_sink_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(tmp_path, "sink")
    job.run()
    job.out.unlink()
    nothing = job.bisect()
    assert nothing.exit_code == 1, nothing.output
    assert "repeat with --with-sink" in nothing.stdout
    assert not job.out.exists()
    result = job.bisect("--with-sink", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["found"]
    assert [Path(name).name for name in report["smallest"][0]["files"]] == ["0005.txt"]
    assert report["error"] == "ValueError: cannot write it"
    assert report["trials"][0]["ranges"][0]["size"] == 8
    assert "line 0" in job.out.read_text()


def test_a_missing_checkpoint_is_a_usage_error(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("raise AssertionError('not run')")
    command = ["bisect", str(script), "--checkpoint", str(tmp_path / "none")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert f"Error: There is no directory {tmp_path / 'none'}" in result.stderr
    as_json = CliRunner().invoke(app, [*command, "--json"])
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout) == {
        "error": f"There is no directory {tmp_path / 'none'}.",
        "kind": "CheckpointError",
    }


NO_ROOM = OSError(errno.ENOSPC, "No space left on device", "/tmp/penstock-bisect-1")
NO_ROOM_TWICE = shutil.Error([(name, f"/tmp/{name}", str(NO_ROOM)) for name in ("a", "b")])


@pytest.mark.parametrize(
    ("error", "message"),
    [(NO_ROOM, str(NO_ROOM)), (NO_ROOM_TWICE, f"{NO_ROOM}, and 1 more errors")],
)
def test_a_checkpoint_that_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("penstock.debug.bisection.Bisection", fails)
    script = tmp_path / "job.py"
    script.write_text("raise AssertionError('not run')")
    result = CliRunner().invoke(app, ["bisect", str(script), "--checkpoint", str(tmp_path)])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {message}\n"


def test_a_script_that_does_not_start_the_query(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n\n5")
    script = tmp_path / "job.py"
    script.write_text("import sys\nassert sys.argv[1:] == ['--own', 'a', '--batch', '1']")
    command = ["bisect", str(script), "--checkpoint", str(checkpoint), "--own", "a"]
    result = CliRunner().invoke(app, [*command, "--", "--batch", "1"])
    assert result.exit_code == 2
    assert f"exited with code 0 and did not start a query on {checkpoint}." in result.stderr
