"""Runs a script for `penstock crashtest`, each run in a child process."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.errors import ExecutionError
from penstock.testing.crash_faults import BatchPoint

DEFAULT_ARGUMENTS = ("{checkpoint}", "{output}")
_PLACES = {"{checkpoint}": "checkpoint", "{output}": "output", "{work}": "."}
"""The placeholders, and the paths that replace them, in the directory of a trial."""

_PLACEHOLDER = re.compile(r"(?<![${])\{[A-Za-z_]\w*\}(?!\})")
"""Matches `{word}`, but not `${word}` and `{{word}}`, which are of other template languages."""

_JVM_OPTIONS = "JDK_JAVA_OPTIONS"
_QUICK_JVM = "-XX:TieredStopAtLevel=1"
"""Disables the C2 compiler, which does not pay off in JVMs that run for seconds."""


class TestInterruptedError(Exception):
    """A run was ended because the whole test was interrupted."""


class Children:
    """The running child processes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.are_ended = False

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a child process with its output in `log`.

        Raises TestInterruptedError if `end_all` was called.
        """
        inherited = os.environ.get(_JVM_OPTIONS, "")
        with self._lock, log.open("wb") as output:
            if self.are_ended:
                raise TestInterruptedError
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, _JVM_OPTIONS: f"{_QUICK_JVM} {inherited}".strip()},
                start_new_session=True,
            )
            self._running.add(child)
            return child

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill the process group of a run, which includes its JVM, and wait for the child."""
        with self._lock:
            self._running.discard(child)
        _kill_group(child)
        child.wait()

    def end_all(self) -> None:
        """Kill every run and prevent further ones."""
        with self._lock:
            self.are_ended = True
            for child in self._running:
                _kill_group(child)


@dataclass(frozen=True)
class ScriptRun:
    """The configuration of the runs of a script.

    In the arguments, `{checkpoint}`, `{output}` and `{work}` are replaced by the paths of the
    trial; raises ExecutionError if they have another `{word}`. `timeout` is the time limit of one
    run in seconds. `tell` is called with progress lines. `options` are for the Spark session of
    the script.
    """

    script: Path
    folder: Path
    arguments: Sequence[str] = DEFAULT_ARGUMENTS
    timeout: float = 300.0
    tell: Callable[[str], None] = field(default=lambda _: None)
    children: Children = field(default_factory=Children)
    options: SparkOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        for argument in self.arguments:
            for word in _PLACEHOLDER.findall(argument):
                if word not in _PLACES:
                    raise _unknown_placeholder(word, self.script)

    def has(self, place: str) -> bool:
        """Whether a placeholder is in the arguments."""
        return any(place in argument for argument in self.arguments)

    def run(self, work: Path, record: Path, kill_at: BatchPoint | None = None) -> int:
        """Run the script once in a child process and return its exit code, negative for a signal.

        The fault points that it reaches are written to the file `record`, its output to
        `log_of(record)`. Raises ExecutionError if it does not end within the timeout, and
        TestInterruptedError if the test was interrupted.
        """
        places = {place: str(work / path) for place, path in _PLACES.items()}
        arguments = [_filled_in(argument, places) for argument in self.arguments]
        at = "-" if kill_at is None else str(kill_at)
        command = [sys.executable, "-m", "penstock.testing.crash_child", str(record), at]
        command.append(json.dumps({"conf": self.options.conf, "named": self.options.named}))
        child = self.children.start([*command, str(self.script), *arguments], log_of(record))
        try:
            code = child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise ExecutionError(
                f"{self.script} did not end within {self.timeout:g} s. Its queries must use "
                "trigger(availableNow=True), and it must wait for them with awaitTermination(). "
                "If it only needs more time, increase --timeout."
            ) from None
        finally:
            self.children.end(child)
        if self.children.are_ended:
            raise TestInterruptedError
        return code


def log_of(record: Path) -> Path:
    """The file with the output of a run."""
    return record.with_name(f"{record.name}.log")


def _filled_in(argument: str, places: dict[str, str]) -> str:
    for place, path in places.items():
        argument = argument.replace(place, path)
    return argument


def _unknown_placeholder(word: str, script: Path) -> ExecutionError:
    similar = difflib.get_close_matches(word, _PLACES, n=1)
    hint = f" Did you mean {similar[0]}?" if similar else ""
    return ExecutionError(
        f"{word} in the arguments of {script} is not a placeholder.{hint} The placeholders are "
        f"{', '.join(_PLACES)}. Text in braces that is for the script itself has to be in a file "
        "or an environment variable that it reads."
    )


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
