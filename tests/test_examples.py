"""The examples use what users have: the public names of `penstock` and of `penstock.testing`."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
import penstock.sinks
import penstock.testing

EXAMPLES = sorted(Path(__file__).parents[1].joinpath("examples").rglob("*.py"))
PUBLIC = {
    module.__name__: set(module.__all__) for module in (penstock, penstock.sinks, penstock.testing)
}

MODULES = {"sinks", "testing"}


def private_names(program: str) -> Iterator[str]:
    """The names of Penstock in a program that are not public, imported or as attributes."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            public = PUBLIC.get(module, set()) | (MODULES if module == "penstock" else set())
            names = [(module, alias.name) for alias in node.names if alias.name not in public]
        elif isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names if alias.name not in PUBLIC]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in PUBLIC:
            module = ast.unparse(node.value)
            is_public = node.attr in PUBLIC[module] or f"{module}.{node.attr}" in PUBLIC
            names = [] if is_public else [(module, node.attr)]
        else:
            continue
        for module, name in names:
            if module.partition(".")[0] == "penstock":
                yield f"{module}.{name}".rstrip(".")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_uses_public_names_only(example: Path) -> None:
    assert list(private_names(example.read_text())) == []


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import penstock.api.writer", ["penstock.api.writer"]),
        ("from penstock.api.writer import write_stream", ["penstock.api.writer.write_stream"]),
        ("from penstock.testing import rows", ["penstock.testing.rows"]),
        ("import penstock\npenstock.api", ["penstock.api"]),
        ("import penstock, penstock.testing\npenstock.testing.KillAt, penstock.replay", []),
        ("from penstock import ReadMaxRows, testing", []),
    ],
)
def test_a_private_name_is_found(program: str, found: list[str]) -> None:
    assert list(private_names(program)) == found


def test_a_public_name_is_where_its_table_says() -> None:
    for module in (penstock, penstock.testing):  # penstock.sinks has no table
        for name, home in module._HOMES.items():
            assert getattr(module, name) is getattr(importlib.import_module(home), name)


def test_the_example_of_many_sinks_runs() -> None:
    example = next(path for path in EXAMPLES if path.name == "many_sinks.py")
    ran = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines() == [
        "lake:      200 orders",
        "alerts:    10 orders; batches {0: 1, 1: 1, 2: 1, 3: 1}",
        "warehouse: 736300 cents; batches {0: 1, 1: 2, 2: 1, 3: 1}",
        "Every sink has every row once.",
    ]


@pytest.mark.extended  # crashes between the steps of this sink are in every run of the suite
def test_the_example_of_an_exactly_once_sink_runs() -> None:
    example = next(path for path in EXAMPLES if path.name == "exactly_once.py")
    ran = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert ran.stdout.count("exactly once") > 15
