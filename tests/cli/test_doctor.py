"""`penstock doctor`: its checks, with a Spark session that it starts and stops, and its output."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.api.doctor import Diagnosis, Finding, _state_files_on_s3
from penstock.cli.main import app
from penstock.cli.output import TextOutput
from penstock.spark.jvm.support import S3StateFiles, Verdict
from tests.installed_spark import installed_line


def test_doctor_checks_python_java_spark_and_every_internal_class() -> None:
    command = [sys.executable, "-m", "penstock.cli", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (0, True)
    subjects = ["Python", "PySpark", "Java", "pandas, pyarrow, protobuf", "Spark"]
    assert [f["subject"] for f in report["findings"]] == subjects
    assert all(f["isGood"] for f in report["findings"])
    found = {v["name"] for v in report["internals"] if v["found"]}
    assert found == set(installed_line().classes)


WITHOUT_A_MEMBER = """
from dataclasses import replace
import pyspark
from penstock.cli.main import app
from penstock.spark.jvm.lines import find_line
classes = find_line(pyspark.__version__).classes
classes["WriteToDataSourceV2Exec"] = replace(
    classes["WriteToDataSourceV2Exec"], name=classes["SparkPlan"].name)
app(["doctor"])
"""


def test_doctor_names_the_member_that_the_java_classes_miss() -> None:
    """A class of Spark without a method that only Java calls: the compiler finds it."""
    command = [sys.executable, "-c", WITHOUT_A_MEMBER]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Java classes" in done.stdout
    assert "BatchOutput.java, line" in done.stdout
    assert "commitProgress" in done.stdout


@pytest.mark.parametrize("found", ["no [main] here", "nothing in [/opt/spark/jars]", "a:x:b"])
def test_findings_are_not_parsed_as_markup(found: str, capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().diagnosis(Diagnosis([Finding("Spark", found, False)], ()))
    assert f"Spark {found}" in capsys.readouterr().out


def state_files(monkeypatch: pytest.MonkeyPatch, found: S3StateFiles | None) -> list[Finding]:
    session = SimpleNamespace(version="4.2.0")
    monkeypatch.setattr("penstock.api.doctor.s3_state_files", lambda spark: found)
    return _state_files_on_s3(cast(SparkSession, session))


def test_what_the_manager_for_abortable_streams_would_save(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert state_files(monkeypatch, None) == []
    (missing,) = state_files(monkeypatch, S3StateFiles(False, False))
    assert "add org.apache.spark:spark-hadoop-cloud of Spark 4.2" in missing.found
    assert (missing.is_good, missing.is_optional) == (False, True)
    (unused,) = state_files(monkeypatch, S3StateFiles(True, False))
    assert "it is 6: set spark.sql.streaming.checkpointFileManagerClass" in unused.found
    (used,) = state_files(monkeypatch, S3StateFiles(True, True))
    assert used.is_good


def diagnosis(*, is_found: bool) -> Diagnosis:
    good = [Finding(name, "as wanted", True) for name in ("Python", "PySpark", "Java", "Spark")]
    found = [Verdict("There", "org.There", "one thing", True)] * 50
    return Diagnosis(good, [*found, Verdict("Perhaps", "org.Perhaps", "another", is_found)])


def test_the_output_is_short_if_all_checks_pass(capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().diagnosis(diagnosis(is_found=True))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    assert "✓ Spark's internals 51 of 51 classes found" in lines
    assert lines[-1] == "Penstock can run here."


def test_missing_classes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().diagnosis(diagnosis(is_found=False))
    text = capsys.readouterr().out
    assert "✗ Spark's internals 50 of 51 classes found" in text
    assert "✗ org.Perhaps another" in text
    assert "org.There" not in text
    assert "Penstock cannot run here" in text


def test_verbose_lists_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().diagnosis(diagnosis(is_found=True), verbose=True)
    assert capsys.readouterr().out.count("org.There") == 50


@pytest.mark.parametrize("is_found", [True, False])
def test_the_exit_code_of_doctor(is_found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.doctor.diagnose", lambda: diagnosis(is_found=is_found))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == (0 if is_found else 1)
    assert ("org.Perhaps" in result.output) == (not is_found)
