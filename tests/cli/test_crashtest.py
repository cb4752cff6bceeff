"""`penstock crashtest` with a script that is killed, run again, and its output compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.errors import ExecutionError
from penstock.testing.crash_outputs import reader_from
from penstock.testing.crash_process import ScriptRun
from penstock.testing.crash_script import crash_test_script

JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

source, checkpoint, output = map(Path, sys.argv[1:])
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.log.level", "OFF")
    .getOrCreate()
)

def write_twice(df, batch_id):
    text = "".join(f"{row.value}\\n" for row in df.collect())
    output.mkdir(exist_ok=True)
    with open(output / "blind", "a") as file:
        file.write(text)
    (output / f"batch-{batch_id}").write_text(text)

lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
query = (
    lines.writeStream.foreachBatch(write_twice)
    .option("checkpointLocation", str(checkpoint))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""

READER = """
from pathlib import Path

def read_output(workspace):
    for file in Path(workspace.output).iterdir():
        for line in file.read_text().split():
            yield file.name, line
"""


@pytest.mark.extended
def test_a_script_is_killed_and_its_output_compared(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text(f"{name}1\n{name}2\n")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "reader.py").write_text(READER)
    result = CliRunner().invoke(
        app,
        [
            "crashtest",
            "--json",
            "--reader",
            str(tmp_path / "reader.py"),
            "--point",
            "after_sink",
            str(tmp_path / "job.py"),
            str(tmp_path / "in"),
            "{checkpoint}",
            "{work}/output",
        ],
    )
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    assert (report["exactlyOnce"], report["expectedRows"]) == (False, 8)
    (trial,) = report["trials"]
    assert (trial["point"], trial["batch"], trial["deliveredAgain"]) == ("after_sink", 1, [1])
    assert trial["verdict"] == "duplicates"
    # The sink that appends has the batch twice, the one that uses the batch id has not.
    assert [text.split("'")[1] for text in trial["duplicates"]] == ["blind", "blind"]
    assert "1 of 1: killed at after_sink of batch 1" in result.stderr


def test_an_unknown_fault_point_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    command = ["crashtest", "--point", "nowhere", str(tmp_path / "job.py")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    text = " ".join(result.stderr.replace("│", "").split())
    assert "'nowhere' is not a fault point. The fault points are before_metadata" in text


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            "raise SystemExit('no input')",
            r"exited with code 1 in the run without a crash:\nno input",
        ),
        ("print('nothing to stream')", "ran no batch"),
    ],
)
def test_a_script_that_cannot_be_tested(tmp_path: Path, job: str, message: str) -> None:
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "work").mkdir()
    run = ScriptRun(tmp_path / "job.py", tmp_path / "work")
    with pytest.raises(ExecutionError, match=message):
        crash_test_script(run, None, every_batch=False)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("{checkpiont}", "{checkpiont} in the arguments of {job} is not a placeholder. Did you me"),
        ("out/{date}.txt", "The placeholders are {checkpoint}, {output}, {work}."),
    ],
)
def test_an_unknown_placeholder_ends_the_test_before_anything_runs(
    tmp_path: Path, word: str, message: str
) -> None:
    job, reader = tmp_path / "job.py", tmp_path / "reader.py"
    for file in (job, reader):
        file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    command = ["crashtest", "--reader", str(reader), str(job), "in", word, "{output}"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert message.replace("{job}", str(job)) in result.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("word", ['{"a": 1}', "{}", "{0}", "${HOME}", "{{ds}}", "{work}/c"])
def test_braces_that_are_no_unknown_placeholder(tmp_path: Path, word: str) -> None:
    assert ScriptRun(tmp_path / "job.py", tmp_path, [word]).arguments == [word]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_timeout_has_to_be_positive(tmp_path: Path, seconds: str) -> None:
    (tmp_path / "job.py").write_text("")
    command = ["crashtest", "--timeout", seconds, str(tmp_path / "job.py")]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"{seconds} is not greater than 0." in result.stderr


def test_with_json_an_error_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    (tmp_path / "reader.py").write_text("read = 5")
    command = ["crashtest", "--json", "--reader", str(tmp_path / "reader.py")]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "job.py")])
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["kind"] == "ExecutionError"
    assert "defines no function read_output" in document["error"]


def test_a_script_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "sleeper").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "sleeper").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "sleeper"))
    (tmp_path / "work").mkdir()
    run = ScriptRun(tmp_path / "job.py", tmp_path / "work", timeout=0.1)
    with pytest.raises(ExecutionError, match=r"did not end within 0\.1 s. Its queries must use"):
        crash_test_script(run, None, every_batch=False)


def test_a_reader_without_its_function(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text("read = 5")
    with pytest.raises(ExecutionError, match=r"defines no function read_output\(workspace\)"):
        reader_from(tmp_path / "reader.py")
