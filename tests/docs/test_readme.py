"""The Python of the README runs, and the make targets that it and the engine page name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ENGINE_PAGE = (ROOT / "docs" / "engine.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_block_runs(spark: SparkSession) -> None:
    [block] = BLOCKS
    names: dict[str, Any] = {}
    exec(block, names)
    query = names["query"]
    assert query.exception() is None
    assert [progress.batchId for progress in query.recentProgress][:3] == [0, 1, 2]


@pytest.mark.parametrize("page", [README, ENGINE_PAGE], ids=["README", "engine page"])
def test_the_make_targets_that_it_names_exist(page: str) -> None:
    named = set(re.findall(r"`make ([a-z-]+)", page))
    assert named
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))


def test_the_make_targets_for_development_are_on_the_engine_page() -> None:
    targets = {
        "check",
        "test",
        "test-all",
        "test-web",
        "simulate",
        "crash",
        "bench",
        "soak",
        "docs",
    }
    assert targets <= set(re.findall(r"`make ([a-z-]+)", ENGINE_PAGE))
