"""What the benchmarks share: figures of a process, the machine, and tables in the documentation."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
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
    done = subprocess.run(command, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith(_RESULT):
            figures: dict[str, Any] = json.loads(line[len(_RESULT) :])
            return figures
    shown = f"{done.stdout}{done.stderr[-3000:]}"
    raise RuntimeError(f"{script.name} {' '.join(arguments)} gave no result:\n{shown}")


def update_section(page: Path, begin: str, end: str, text: str) -> None:
    """Replace the text between two comments, if the page has them."""
    before, found_begin, rest = page.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if found_begin and found_end:
        page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
