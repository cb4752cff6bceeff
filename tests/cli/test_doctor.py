"""`penstock doctor`: what it finds, with a Spark that it starts and stops, and how it tells."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from penstock.api.doctor import Diagnosis, Finding
from penstock.cli.output import TextOutput
from penstock.spark.internals import INTERNAL_CLASSES


def test_the_doctor_looks_at_python_java_spark_and_every_internal_class() -> None:
    command = [sys.executable, "-m", "penstock.cli", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (0, True)
    assert [f["subject"] for f in report["findings"]] == ["Python", "PySpark", "Java", "Spark"]
    assert {v["name"] for v in report["internals"] if v["found"]} == set(INTERNAL_CLASSES)


@pytest.mark.parametrize("found", ["no [main] here", "nothing in [/opt/spark/jars]", "a:x:b"])
def test_what_was_found_is_shown_as_it_is(found: str, capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().diagnosis(Diagnosis([Finding("Spark", found, False)], ()))
    assert f"Spark {found}" in capsys.readouterr().out
