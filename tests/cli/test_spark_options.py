"""The options of spark-submit that `penstock run`, `crashtest` and `bisect` take."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from typer.testing import CliRunner

from penstock.api.spark_options import SparkOptions
from penstock.cli.main import app
from penstock.testing.crash_process import ScriptRun
from tests.docs.clicks import clicks

JOB = """
import json, sys
import helper, packaged  # before there is a session, as spark-submit allows
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.in.code", "code")
    .config("spark.log.level", "OFF")
    .getOrCreate()
)

@udf("string")
def of_worker(n):
    import helper, packaged
    return f"{helper.NAME} {packaged.NAME}"

shown = {k: v for k, v in spark.sparkContext.getConf().getAll() if k.startswith(sys.argv[1])}
with open(sys.argv[2], "w") as file:
    json.dump({
        "master": spark.sparkContext.master,
        "name": spark.sparkContext.appName,
        "python": spark.sparkContext.pythonExec,
        "conf": shown,
        "driver": f"{helper.NAME} {packaged.NAME}",
        "workers": spark.range(1).select(of_worker("id")).first()[0],
    }, file)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a space in its name, with a job, two modules and a properties file."""
    folder = tmp_path / "my jobs"
    folder.mkdir()
    (folder / "job.py").write_text(JOB)
    (folder / "lib").mkdir()
    (folder / "lib" / "helper.py").write_text("NAME = 'helper'\n")
    with zipfile.ZipFile(folder / "lib" / "packaged.zip", "w") as archive:
        archive.writestr("packaged.py", "NAME = 'packaged'\n")
    (folder / "my.conf").write_text(
        "spark.in.code file\nspark.in.both file\nspark.in.file = a file's value\n"
    )
    return folder


def _ended(
    command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
) -> Any:
    out = folder / "out.json"
    ran = subprocess.run(
        [*command, "spark.in.", out],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(out.read_text())


def test_the_options_have_the_effect_that_they_have_with_spark_submit(folder: Path) -> None:
    files = "lib/helper.py,lib/packaged.zip"
    options = ["--master", "local[1]", "--name", "two words", "--py-files", files]
    options += ["--properties-file", "my.conf", "-c", "spark.in.both=given", "--conf"]
    options += ["spark.in.odd=a \"b\" $c \\ 'd'", "--deploy-mode", "client"]
    options += ["--conf", "spark.in.code=given", "--conf", f"spark.pyspark.python={sys.executable}"]
    ours = _ended(
        [sys.executable, "-m", "penstock", "run", *options, "job.py"],
        folder,
        {"PYSPARK_PYTHON": "python-that-is-not-there"},
    )
    assert ours == {
        "master": "local[1]",
        "name": "two words",
        "python": sys.executable,
        "conf": {
            "spark.in.code": "code",
            "spark.in.both": "given",
            "spark.in.file": "a file's value",
            "spark.in.odd": "a \"b\" $c \\ 'd'",
        },
        "driver": "helper packaged",
        "workers": "helper packaged",
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    assert _ended([submit, *options, "job.py"], folder) == ours


def test_options_take_precedence_over_the_variable_of_pyspark(folder: Path) -> None:
    variable = "--master local[3] --name theirs --conf spark.in.both=theirs --conf spark.in.x=x"
    options = ["--conf", "spark.master=local[2]", "--conf", "spark.in.both=ours"]
    options += ["--py-files", f"lib/helper.py,{folder}/lib/packaged.zip"]
    seen = _ended(
        [sys.executable, "-m", "penstock", "run", *options, "job.py"],
        folder,
        {"PYSPARK_SUBMIT_ARGS": f"{variable} pyspark-shell"},
    )
    assert (seen["master"], seen["name"]) == ("local[2]", "theirs")
    assert seen["conf"] == {"spark.in.code": "code", "spark.in.both": "ours", "spark.in.x": "x"}


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        (None, []),
        ("pyspark-shell", []),
        ("--name 'a b' pyspark-shell", ["--name", "a b"]),
        ("--name pyspark-shell --verbose pyspark-shell", ["--name", "pyspark-shell", "--verbose"]),
        ("--verbose", ["--verbose"]),
    ],
)
def test_the_variable_of_pyspark_is_continued(inherited: str | None, expected: list[str]) -> None:
    options = SparkOptions({"spark.a": "b c"}, {"--jars": "/x y.jar"})
    words = shlex.split(options.submit_arguments(inherited))
    assert words == [*expected, "--jars", "/x y.jar", "--conf", "spark.a=b c", "pyspark-shell"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mastr", "local"], "--master"),
        (["--master", "localhost:7077"], "'localhost:7077' is not a master URL. Use spark://host"),
        (["--conf", "spark.master=mesos://h:1"], "for --conf: 'mesos://h:1' is not a master URL"),
        (["--deploy-mode", "cluster"], "call penstock.install() in the program and submit it with"),
        (["--conf", "spark.submit.deployMode=cluster"], "`spark-submit --deploy-mode cluster`"),
        (["--deploy-mode", "remote"], "'remote' is not a deploy mode; use client"),
        (["--conf", "spark.x"], "'spark.x' is not key=value"),
        (["--conf", "=1"], "'=1' is not key=value"),
        (["--conf", "sql.x=1"], "Spark ignores 'sql.x'"),
        (
            ["--conf", "fs.s3a.endpoint=h"],
            "'spark.hadoop.fs.s3a.endpoint' for a property of Hadoop",
        ),
        (["--jars", "{here}/job.py,no.jar"], "for --jars: File 'no.jar' does not exist"),
        (["--py-files", "{here}"], "is a directory"),
        (["--properties-file", "no.conf"], "for --properties-file: File 'no.conf' does not exist"),
    ],
)
@pytest.mark.parametrize("command", ["run", "crashtest", "bisect"])
def test_an_option_that_spark_would_refuse_is_refused_before_it_starts(
    tmp_path: Path, command: str, options: list[str], message: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    words = [option.format(here=tmp_path) for option in options]
    words += ["--checkpoint", str(tmp_path)] if command == "bisect" else []
    result = CliRunner(env={"COLUMNS": "1000"}).invoke(app, [command, *words, str(job)])
    # `bisect` takes unknown options as arguments of the script.
    if not (command == "bisect" and "--mastr" in options):
        assert (result.exit_code, message in result.output) == (2, True), result.output
        assert not (tmp_path / "ran").exists()


def test_a_variable_that_cannot_be_split_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    runner = CliRunner(env={"COLUMNS": "1000", "PYSPARK_SUBMIT_ARGS": '--name "a pyspark-shell'})
    result = runner.invoke(app, ["run", "--master", "local", str(tmp_path / "job.py")])
    assert result.exit_code == 2
    assert "for PYSPARK_SUBMIT_ARGS: " in result.output
    assert "No closing quotation" in result.output


WITHOUT_SPARK = """
import os, sys
import helper
with open(helper.NAME, "a") as file:
    print(os.environ["PYSPARK_SUBMIT_ARGS"], file=file)
os.chdir("/")
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["run", "{options}", "job.py", "0"],
        [
            "run",
            "--restart=on-failure",
            "--max-restarts=1",
            "--backoff=0",
            "{options}",
            "job.py",
            "5",
        ],
        ["crashtest", "{options}", "job.py", "5"],
        ["bisect", "job.py", "{options}", "--checkpoint", "x", "--", "5"],
    ],
    ids=lambda words: f"{words[0]} {words[1]}",
)
def test_every_command_and_its_child_processes_take_the_options(
    folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    (folder / "job.py").write_text(WITHOUT_SPARK)
    (folder / "lib" / "helper.py").write_text(f"NAME = {str(folder / 'seen')!r}")
    clicks(folder / "x")
    options = ["--py-files", "lib/helper.py", "--conf", "spark.in.x=a b", "--name", "n"]
    at = words.index("{options}")
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    result = CliRunner().invoke(app, [*words[:at], *options, *words[at + 1 :]])
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") == before
    seen = (folder / "seen").read_text().splitlines()
    assert len(seen) == (2 if "--restart=on-failure" in words else 1), result.output
    for line in seen:
        given = shlex.split(line)
        assert given[-1] == "pyspark-shell"
        assert given[given.index("--py-files") + 1] == str(folder / "lib" / "helper.py")
        assert "spark.in.x=a b" in given


def test_a_crash_test_is_not_resumed_with_other_options(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    (folder / "tests").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tests"))
    monkeypatch.setattr(ScriptRun, "run", interrupt)
    (folder / "job.py").write_text("")
    words = ["crashtest", "--conf", "spark.in.password=p1", str(folder / "job.py")]
    assert CliRunner().invoke(app, words).exit_code == 130
    (test,) = (folder / "tests").iterdir()
    assert "p1" not in (test / "crashtest.json").read_text()
    words[2] = "spark.in.password=p2"
    result = CliRunner().invoke(app, ["crashtest", "--resume", str(test), *words[1:]])
    assert result.exit_code == 2
    assert "another crash test (other options)" in result.output
