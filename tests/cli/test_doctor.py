"""`penstock doctor`, in a process of its own: it starts a Spark and stops it."""

from __future__ import annotations

import json
import subprocess
import sys

from penstock.spark.internals import INTERNAL_CLASSES


def test_the_doctor_looks_at_python_java_spark_and_every_internal_class() -> None:
    command = [sys.executable, "-m", "penstock.cli", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (0, True)
    assert [f["subject"] for f in report["findings"]] == ["Python", "PySpark", "Java", "Spark"]
    assert {v["name"] for v in report["internals"] if v["found"]} == set(INTERNAL_CLASSES)
