"""A program of a user, as docs/run.md has it, under mypy: it knows what Penstock's queries have."""

from __future__ import annotations

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
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def mypy(program: str, folder: Path, cache: Path) -> str:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_mypy_knows_a_query_after_install(tmp_path: Path, cache: Path) -> None:
    assert mypy(PROGRAM, tmp_path, cache).startswith("Success")


def test_mypy_does_not_know_it_without_being_told(tmp_path: Path, cache: Path) -> None:
    assert NARROWING in PROGRAM
    found = mypy(PROGRAM.replace(NARROWING, ""), tmp_path, cache)
    assert 'Unexpected keyword argument "graceful" for "stop" of "StreamingQuery"' in found


def test_mypy_knows_the_query_of_a_writer_of_ours(tmp_path: Path, cache: Path) -> None:
    program = PROGRAM.replace(NARROWING, "").replace(
        "numbers.writeStream", "penstock.write_stream(numbers)"
    )
    assert mypy(program, tmp_path, cache).startswith("Success")
