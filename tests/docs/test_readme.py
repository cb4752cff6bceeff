"""The README's Python runs as a reader would run it, and the targets it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_block_of_the_readme_runs(spark: SparkSession) -> None:
    [block] = BLOCKS
    names: dict[str, Any] = {}
    exec(block, names)
    query = names["query"]
    assert query.exception() is None
    assert [progress.batchId for progress in query.recentProgress][:3] == [0, 1, 2]


@pytest.mark.parametrize(
    "target", ["demo", "test", "docs", "check", "simulate", "crash", "test-web", "bench", "soak"]
)
def test_the_targets_it_names_exist(target: str) -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
