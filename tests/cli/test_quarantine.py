"""`penstock quarantine retry` with a script, in this process and with its Spark session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import penstock
from penstock.checkpoint.quarantine_log import QUARANTINE
from penstock.cli.main import app
from penstock.debug.quarantine_retry import RetryReport
from tests.checkpoint.tools.checkpoints import stateless, write
from tests.streams import LineFiles, column

JOB = """
import sys
from pyspark.sql import SparkSession

import penstock

source, checkpoint, aside, out, bad, keys = sys.argv[1:]
spark = SparkSession.builder.getOrCreate().newSession()
lines = spark.readStream.option("maxFilesPerTrigger", 3).text(source)
checked = lines.selectExpr(f"if(value = '{bad}', raise_error('bad'), upper(value)) as value")
if keys == "stateful":
    checked = checked.dropDuplicates(["value"])
print("about to start")
writer = penstock.write_stream(checked).quarantine(aside, after=1)
writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
try:
    writer.start(out, format="parquet").awaitTermination()
except penstock.StreamingQueryException:
    sys.exit(1)
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reverts the changes that running a script makes to this process."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    yield
    penstock.uninstall()


class Job:
    """A script over six files, two of which fail. The files are two batches."""

    def __init__(self, directory: Path, keys: str = "stateless") -> None:
        self.files = LineFiles(directory / "in")
        for number in range(6):
            self.files.add(f"line {number}", *(["bad"] if number in (1, 4) else []))
        self.script = directory / "job.py"
        self.script.write_text(JOB)
        self.directory = directory
        self.checkpoint = directory / "checkpoint"
        self.keys = keys

    def arguments(self, bad: str) -> list[str]:
        names = ("checkpoint", "aside", "out")
        paths = [str(self.directory / name) for name in names]
        return [str(self.files.directory), *paths, bad, self.keys]

    def run(self) -> None:
        """Run the job until it has put both files aside."""
        for code in (1, 1, 0):
            command = ["run", str(self.script), *self.arguments("bad")]
            result = CliRunner().invoke(app, command)
            assert result.exit_code == code, result.output

    def retry(self, *options: str, bad: str = "nothing") -> Result:
        before = self._files()
        command = ["quarantine", "retry", str(self.checkpoint), str(self.script), *options]
        result = CliRunner().invoke(app, [*command, *self.arguments(bad)])
        assert self._files() == before
        return result

    def _files(self) -> dict[Path, bytes]:
        paths = self.checkpoint.rglob("*")
        return {path: path.read_bytes() for path in paths if path.is_file()}


def test_retry_runs_the_parts_through_the_fixed_script(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run()
    out = str(tmp_path / "out")
    assert column(spark.read.parquet(out)) == ["LINE 0", "LINE 2", "LINE 3", "LINE 5"]

    still = job.retry("--batch", "0", bad="bad")
    assert still.exit_code == 1
    assert "0001.txt" in still.stdout
    assert "fails: " in still.stdout

    output = str(tmp_path / "again")
    fixed = job.retry("--output", output, "--json")
    assert fixed.exit_code == 0, fixed.output
    document = json.loads(fixed.stdout)
    assert [(part["batch"], part["rows"], part["error"]) for part in document["parts"]] == [
        (0, 2, None),
        (1, 2, None),
    ]
    again = spark.read.parquet(output).select("value")
    assert column(again) == ["BAD", "BAD", "LINE 1", "LINE 4"]
    assert column(spark.read.parquet(out)) == ["LINE 0", "LINE 2", "LINE 3", "LINE 5"]


def test_retry_of_a_file_that_is_gone_and_of_an_output_with_other_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    job.run()
    by_batch = tmp_path / "by-batch" / "batch=0"
    by_batch.mkdir(parents=True)
    (by_batch / "rows.parquet").touch()
    for other in ("aside", "out", "by-batch"):
        refused = job.retry("--output", str(tmp_path / other))
        assert refused.exit_code == 2, refused.output
        assert "is not the output of a retry: it has" in " ".join(refused.output.split())

    output = str(tmp_path / "again")
    assert job.retry("--output", output).exit_code == 0
    [gone] = job.files.directory.glob("*1.txt")
    gone.rename(tmp_path / "archived.txt")
    again = job.retry("--output", output, "--json")
    assert again.exit_code == 1
    missing, present = json.loads(again.stdout)["parts"]
    assert "the file does not exist any more. Put it back" in missing["error"]
    assert present["rows"] == 2
    assert column(spark.read.parquet(output).select("value")) == ["BAD", "BAD", "LINE 1", "LINE 4"]


def test_retry_of_a_stateful_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path, "stateful")
    job.run()
    refused = job.retry()
    assert refused.exit_code == 2
    assert "A query that keeps state cannot be retried" in " ".join(refused.output.split())


@pytest.mark.parametrize("options", [[], ["--batch", "1"]])
def test_retry_with_a_record_that_cannot_be_read(tmp_path: Path, options: list[str]) -> None:
    job = Job(tmp_path)
    stateless(job.checkpoint)
    write(job.checkpoint / QUARANTINE / "1", "v1\n{")
    refused = job.retry(*options, "--json")
    assert refused.exit_code == 2, refused.output
    document = json.loads(refused.stdout)
    assert document["kind"] == "CheckpointError"
    assert document["error"].startswith("It is unknown what batch 1 leaves out: ")
    assert "Retry the others one at a time" in document["error"]
    assert not RetryReport((), None).has_passed


def test_retry_without_anything_left_out(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path)
    result = CliRunner().invoke(app, ["run", str(job.script), *job.arguments("nothing")])
    assert result.exit_code == 0, result.output
    refused = job.retry()
    assert refused.exit_code == 2
    assert "leaves anything out" in refused.output
