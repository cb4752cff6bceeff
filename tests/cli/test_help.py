"""The help, version and completion of the command line."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.main import app

WIDTH = 80


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of a tree, with its path."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


TREE = dict(commands(typer.main.get_command(app)))


def test_every_command_argument_and_option_is_described() -> None:
    silent = [" ".join(path) for path, command in TREE.items() if not command.help]
    silent += [
        f"{' '.join(path)} {parameter.name}"
        for path, command in TREE.items()
        for parameter in command.params
        if not getattr(parameter, "help", None)
    ]
    assert silent == []
    assert ("checkpoint", "diff") in TREE


@pytest.mark.parametrize("path", TREE, ids=lambda path: " ".join(path) or "penstock")
def test_help_fills_its_lines_at_80_columns(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert max(map(len, lines)) <= WIDTH
    for line, following in itertools.pairwise(lines):
        if line.startswith(" ") and following.strip() and not following.startswith("╭"):
            first_word = following.split()[0]
            assert len(line) + 1 + len(first_word) > WIDTH - 1, f"broken too early: {line!r}"


@pytest.mark.parametrize("module", ["penstock", "penstock.cli"])
def test_the_version_is_an_option_of_every_entry_point(module: str) -> None:
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"penstock {__version__}\n")


def test_usage_under_python_m_has_the_name_penstock() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "--help"], capture_output=True, text=True
    )
    assert "Usage: penstock run " in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_for_each_shell(shell: str) -> None:
    command = [sys.executable, "-m", "penstock", "--show-completion"]
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run([*command, shell], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "_PENSTOCK_COMPLETE" in done.stdout


def test_commands_and_options_are_completed() -> None:
    def completed(words: str) -> set[str]:
        env = {
            **os.environ,
            "_PENSTOCK_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        command = [sys.executable, "-m", "penstock"]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        return set(re.split(r"\s+", done.stdout.strip()))

    assert {"run", "doctor", "checkpoint"} <= completed("penstock ")
    assert "--metrics-port" in completed("penstock run --me")
    assert "rewind" in completed("penstock checkpoint re")
