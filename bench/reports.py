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

_RESULT = "RESULT "

MACHINE = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"


def print_figures(figures: dict[str, Any]) -> None:
    """Print figures for `figures_of`, in the process that was measured."""
    print(_RESULT + json.dumps(figures), flush=True)


def figures_of(script: Path, *arguments: str) -> dict[str, Any]:
    """Run a script in a new process and return the figures that it prints."""
    command = [sys.executable, str(script), *arguments]
    return figures_in(output_of(command), command)


def output_of(command: Sequence[str]) -> str:
    """Run a command to its end and return what it wrote."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ).stdout


def figures_in(output: str, command: Sequence[str]) -> dict[str, Any]:
    """The figures that a process has printed."""
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
