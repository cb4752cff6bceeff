"""Runs the blocks of a page one after the other, in the current directory."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib
from typer.testing import CliRunner

from penstock.cli.main import app
from tests.docs.blocks import ROOT, Block, Command, commands_of, is_as_shown

_WIDTH = "90"
_CHEAPER = [
    (re.compile(r"--(metrics|web)-port \d+"), r"--\1-port 0"),  # any port that is free
    (re.compile(r"--backoff \d+"), "--backoff 0"),
]
_FAILING_ONCE = """
import sys
from pathlib import Path

if not Path("failed").exists():
    Path("failed").touch()
    sys.exit("the first run fails")
"""


class Reader:
    """Runs Python in one namespace, and `penstock` and `python` commands in this process.

    They share its Spark session. Other commands are run by a shell, except those that would install
    something: `make` is run with `-n`, and for `pip install` the extras are checked.
    """

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names = {} if names is None else names

    def follow(self, block: Block) -> None:
        """Run a block. Raises if it fails or its output is not the one shown."""
        if block.kind == "python":
            self._run_python(block)
        elif block.kind in ("sh", "console"):
            for command in commands_of(block):
                self._run(command)

    def _run_python(self, block: Block) -> None:
        named = re.match(r"# (\w+\.py)\n", block.text)
        if named:
            Path(named[1]).write_text(block.text)
        else:
            exec(compile(block.text, str(block), "exec"), self.names)

    def _run(self, command: Command) -> None:
        words = shlex.split(command.line)
        if words[0] == "penstock":
            code, printed = self._run_penstock(command.line)
        elif words[0] == "python":
            code, printed = self._run_script(words[1:])
        elif words[0] == "make":
            code, printed = _shell(f"make -n {shlex.join(words[1:])}", ROOT)
        elif words[:2] == ["pip", "install"]:
            code, printed = 0, _check_requirements(words[2:])
        else:
            code, printed = _shell(command.line, Path())
        assert code == command.code, f"$ {command.line}\nexit code {code}\n{printed}"
        if command.shown is not None:
            told = f"$ {command.line}\n{printed}\n-- the page shows:\n{command.shown}"
            assert is_as_shown(printed, command.shown), told

    def _run_penstock(self, line: str) -> tuple[int, str]:
        from penstock.api.install import uninstall

        for pattern, instead in _CHEAPER:
            line = pattern.sub(instead, line)
        words = shlex.split(line)[1:]
        is_restarting = "--restart" in words
        if is_restarting:  # runs child processes: use a script that starts no Spark
            Path("failing.py").write_text(_FAILING_ONCE)
            words = ["failing.py" if word == "job.py" else word for word in words]
        try:
            result = CliRunner(env={"COLUMNS": _WIDTH}).invoke(app, words)
        finally:
            if "pyspark" in sys.modules:
                uninstall()
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        said = result.stderr
        assert not is_restarting or "restart 1 of" in said, f"$ {line}\nno restart:\n{said}"
        assert "-port " not in line or "penstock: " in said, f"$ {line}\nnothing served:\n{said}"
        # Pages do not show what a successful script prints on standard error.
        is_quiet = words[0] == "run" and result.exit_code == 0
        return result.exit_code, result.stdout if is_quiet else result.output

    def _run_script(self, words: list[str]) -> tuple[int, str]:
        """Run `python script.py ARGS`, on Spark's engine."""
        before = sys.argv
        sys.argv = words
        try:
            runpy.run_path(words[0], run_name="__main__")
        finally:
            sys.argv = before
        return 0, ""


def _shell(line: str, folder: Path) -> tuple[int, str]:
    ran = subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def _check_requirements(words: list[str]) -> str:
    """Check that the package has the extras that are to be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words:
        found = re.fullmatch(r"(?:\.|penstock)(?:\[([\w,]+)\])?", word)
        assert found, f"unknown requirement {word!r}"
        extras = set(found[1].split(",")) if found[1] else set()
        assert extras <= set(project["optional-dependencies"]), f"{word!r}: no such extra"
    return ""
