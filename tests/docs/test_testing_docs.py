"""Runs every example of docs/testing.md."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.api.install import install, uninstall
from penstock.testing import StreamScript
from penstock.testing.rows import side_by_side

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCRIPTS = [block for block in BLOCKS if block.startswith("# job.py")]
TESTS = [block for block in BLOCKS if block not in SCRIPTS]


def test_the_examples_pass_as_a_test_file(tmp_path: Path) -> None:
    (tmp_path / "test_examples.py").write_text("\n\n".join(TESTS))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(re.findall('^def test_', PAGE, re.MULTILINE))} passed" in ran.stdout
    assert ran.stderr == "", "the session has log output"
    (matrix,) = re.findall(r"^```\n(crash at.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert matrix in ran.stdout


def test_the_job_runs_as_a_script(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = SCRIPTS
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    paths = [str(tmp_path / name) for name in ("in", "checkpoint", "out")]
    monkeypatch.setattr(sys, "argv", ["job.py", *paths])
    install()
    try:
        runpy.run_path(str(tmp_path / "job.py"), run_name="__main__")
    finally:
        uninstall()
    assert {row.value for row in spark.read.parquet(paths[2]).collect()} == {"one", "two"}


@pytest.mark.extended
def test_the_crashtest_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one point only, since each point takes three runs in new JVMs."""
    (job,) = SCRIPTS
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    (line,) = re.findall(r"^```sh\npenstock (crashtest .*)\n```$", PAGE, re.MULTILINE)
    command, *rest = line.split()
    words = [sys.executable, "-m", "penstock.cli", command, "--point", "after_sink", *rest]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "exactly once" in ran.stdout


def test_the_shown_failure_has_the_real_format() -> None:
    shown = "\n".join(f"  {line}" for line in side_by_side([(0, 3)], [(0, 2)]).splitlines())
    assert shown in PAGE


def test_the_script_methods_on_the_page_exist() -> None:
    calls = re.findall(r"`(expect\w*|step\w*|add|run|restart|crash|advance)\(", PAGE)
    assert len(set(calls)) > 10
    assert [call for call in calls if not hasattr(StreamScript, call)] == []
