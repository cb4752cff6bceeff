"""What the benchmarks share: figures of a process, the machine, and tables in the documentation."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turns import run_in_turns

_RESULT = "RESULT "

MACHINE = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"


def print_figures(figures: dict[str, Any]) -> None:
    """Print figures for `figures_of`, in the process that was measured."""
    print(_RESULT + json.dumps(figures), flush=True)


def figures_of(
    script: Path, engines: Sequence[str], *arguments: str, turn_seconds: float | None = None
) -> dict[str, dict[str, Any]]:
    """Run a script in a new process for each engine and return the figures that each prints.

    The processes run one after another, with `turn_seconds` beside each other in turns.
    """
    commands = {engine: [sys.executable, str(script), engine, *arguments] for engine in engines}
    if turn_seconds is None:
        outputs = {engine: _output_of(command) for engine, command in commands.items()}
    else:
        outputs = run_in_turns(commands, turn_seconds)
    return {engine: _figures_in(outputs[engine], commands[engine]) for engine in engines}


def _output_of(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def _figures_in(output: str, command: Sequence[str]) -> dict[str, Any]:
    for line in output.splitlines():
        if line.startswith(_RESULT):
            figures: dict[str, Any] = json.loads(line[len(_RESULT) :])
            return figures
    raise RuntimeError(f"{' '.join(command)} gave no result:\n{output[-3000:]}")


def update_section(page: Path, begin: str, end: str, text: str) -> None:
    """Replace the text between two comments, if the page has them."""
    before, found_begin, rest = page.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if found_begin and found_end:
        page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
