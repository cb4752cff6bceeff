"""Runs the commands and the Python of every page in order, and compares pages with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
from typer.main import get_command

from penstock.api.runner import Outcome
from penstock.cli.main import app
from tests.docs.blocks import EXECUTED, PAGES, ROOT, SHOWN, Block, blocks_of, is_as_shown
from tests.docs.reader import Reader

DOCS = ROOT / "docs"
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
GOLDEN = ROOT / "tests" / "golden" / "spark-4.3.0" / "windowed"

# Which test runs the blocks of a page.
WITH_SPARK = [
    "index.md",
    "run.md",
    "many-sinks.md",
    "triggers.md",
    "pace.md",
    "quarantine.md",
    "exactly-once-sinks.md",
    "operate.md",
    "engine.md",
]
WITHOUT_SPARK = ["checkpoint.md"]
ELSEWHERE = [
    "testing.md",  # test_testing_docs.py
    "kafka.md",  # tests/real/test_kafka_docs.py, with a broker
    "cluster.md",  # tests/real/test_cluster.py
    "delta.md",  # tests/real/test_lake_docs.py, on a line of Spark that has Delta
    "iceberg.md",  # the same, for Iceberg
]


def test_every_page_with_executed_blocks_is_run_by_a_test() -> None:
    pages = {block.page for block in BLOCKS if block.kind in EXECUTED}
    assert pages == {*WITH_SPARK, *WITHOUT_SPARK, *ELSEWHERE}


def test_every_block_has_a_known_language() -> None:
    assert [str(block) for block in BLOCKS if block.kind not in EXECUTED | SHOWN] == []
    assert [str(block) for block in BLOCKS if block.has_stray_command] == []


def test_pages_that_need_spark_work(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.docs.follow", *WITH_SPARK],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wanted = [block for block in BLOCKS if block.page in WITH_SPARK and block.kind in EXECUTED]
    assert len(re.findall("^.* works ", ran.stdout, re.MULTILINE)) == len(wanted)


@pytest.mark.parametrize("page", WITHOUT_SPARK)
def test_pages_that_need_no_spark_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    for block in blocks_of(DOCS / page):
        reader.follow(block)


@pytest.mark.extended
def test_the_demo_prints_what_the_page_shows() -> None:
    ran = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [shown] = [block.text for block in blocks_of(DOCS / "index.md") if block.info == "text"]
    assert is_as_shown(ran.stdout, shown), ran.stdout


# Statements of the pages about the code.


def _subcommand(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, and the remaining words."""
    command: Any = get_command(app)
    while words[:1] and words[0][0] != "-" and (known := getattr(command, "commands", None)):
        name, *words = words
        assert name in known, f"{name!r} is not one of {', '.join(known)}"
        command = known[name]
    return command, words


def _options(command: Any) -> set[str]:
    names = {name for parameter in command.params for name in parameter.opts}
    return {name for name in names if name.startswith("--")} - {"--help"}


def _mentions() -> list[str]:
    """Every `penstock ...` in inline code and in blocks, of the pages and the README."""
    texts = [path.read_text() for path in [*PAGES, ROOT / "README.md"]]
    inline = [re.sub(r"\s+", " ", m) for t in texts for m in re.findall(r"`(penstock [^`]+)`", t)]
    in_blocks = [m for t in texts for m in re.findall(r"^(?:\$ )?(penstock .*)$", t, re.MULTILINE)]
    return sorted({re.sub(r"\s+#.*", "", mention) for mention in inline + in_blocks})


@pytest.mark.parametrize("mention", _mentions())
def test_every_mentioned_command_exists_with_its_options(mention: str) -> None:
    command, rest = _subcommand(mention.split()[1:])
    own = rest
    if command.name in ("run", "crashtest"):  # the words after the script are its arguments
        own = rest[: next((i for i, w in enumerate(rest) if w.endswith(".py")), len(rest))]
    assert {word for word in own if word.startswith("--")} <= _options(command)


def test_the_page_lists_all_options_of_run() -> None:
    page = (DOCS / "run.md").read_text()
    in_table = set(re.findall(r"`(--[a-z-]+)", "\n".join(re.findall(r"^\| `--.*", page, re.M))))
    command, _ = _subcommand(["run"])
    assert in_table == _options(command)


def test_the_page_lists_all_exit_codes_of_run() -> None:
    page = (DOCS / "run.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {*Outcome, 2}


@pytest.mark.parametrize("page", ["engine.md"])
def test_shown_checkpoint_files_are_those_of_a_spark_checkpoint(page: str) -> None:
    titled: list[Block] = [block for block in blocks_of(DOCS / page) if block.title]
    assert len(titled) == 3
    for block in titled:
        assert is_as_shown((GOLDEN / block.title).read_text(), block.text), str(block)


def test_the_diagram_has_the_phases_of_the_engine() -> None:
    diagram = (DOCS / "images" / "batch.svg").read_text()
    named = re.findall(r'class="phase"[^>]*>([^<]*)<', diagram)
    shown = {word for text in named for word in re.findall(r"\b[a-z]+[A-Z]\w*", text)}
    source = "\n".join(path.read_text() for path in (ROOT / "src/penstock/engine").glob("*.py"))
    reported = set(re.findall(r'report_time_taken\("(\w+)"\)', source))
    assert shown == reported | {"latestOffset", "getOffset"}


def test_the_packages_may_import_what_the_page_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    page = (DOCS / "engine.md").read_text().partition("## Packages")[2]
    said = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    packages = {name for name, _ in said}
    assert len(packages) == 10
    for name, imports in said:
        forbidden = {
            module.removeprefix("penstock.")
            for contract in project["tool"]["importlinter"]["contracts"]
            if f"penstock.{name}" in contract.get("source_modules", ())
            for module in contract["forbidden_modules"]
        }
        assert set(re.findall(r"`(\w+)`", imports)) == packages - forbidden - {name}
