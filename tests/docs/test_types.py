"""mypy accepts the example of docs/run.md and knows the methods of Penstock's queries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "run.md").read_text()
(PROGRAM,) = (
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "penstock.install()" in block
)
NARROWING = "assert isinstance(query, penstock.StreamingQuery)\n"


@pytest.fixture(scope="module")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each test process, kept between runs: mypy takes long to read PySpark's types."""
    kept = request.config.cache
    if kept is None:
        return tmp_path_factory.mktemp("mypy")
    return kept.mkdir(f"mypy-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")


def mypy(program: str, folder: Path, cache: Path) -> str:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_mypy_accepts_the_example(tmp_path: Path, cache: Path) -> None:
    assert mypy(PROGRAM, tmp_path, cache).startswith("Success")


def test_mypy_rejects_it_without_the_isinstance(tmp_path: Path, cache: Path) -> None:
    assert NARROWING in PROGRAM
    found = mypy(PROGRAM.replace(NARROWING, ""), tmp_path, cache)
    assert 'Unexpected keyword argument "graceful" for "stop" of "StreamingQuery"' in found


def test_mypy_knows_the_query_type_of_write_stream(tmp_path: Path, cache: Path) -> None:
    program = PROGRAM.replace(NARROWING, "").replace(
        "numbers.writeStream", "penstock.write_stream(numbers)"
    )
    assert mypy(program, tmp_path, cache).startswith("Success")
