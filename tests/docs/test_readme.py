"""The README's Python runs, block after block, as a reader would run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_blocks_of_the_readme_run_one_after_the_other(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    assert len(BLOCKS) == 3
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    printed = capfd.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith(("0 ", "9 "))] == ["0 1000", "9 1000"]


@pytest.mark.parametrize(
    "target", ["demo", "test", "docs", "check", "simulate", "crash", "test-web", "bench", "soak"]
)
def test_the_targets_it_names_exist(target: str) -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
