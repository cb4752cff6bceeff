"""The runs of a script under `penstock crashtest`, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ExecutionError
from penstock.testing.crash_faults import Passage

DEFAULT_ARGUMENTS = ("{checkpoint}", "{output}")
_JVM_OPTIONS = "JDK_JAVA_OPTIONS"
_QUICK_JVM = "-XX:TieredStopAtLevel=1"
"""These JVMs live for seconds: optimised code would not pay off."""


class TestInterruptedError(Exception):
    """A run that was ended because the whole test is."""


class Children:
    """The processes that run now. Used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.are_ended = False

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Raises TestInterruptedError if `end_all` was called."""
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
        """Let nothing of a run outlive it, its JVM least of all."""
        with self._lock:
            self._running.discard(child)
        _kill_group(child)
        child.wait()

    def end_all(self) -> None:
        """Kill every run; no other starts."""
        with self._lock:
            self.are_ended = True
            for child in self._running:
                _kill_group(child)


@dataclass(frozen=True)
class ScriptRun:
    """What a script is run with.

    In each of the arguments `{checkpoint}`, `{output}` and `{work}` stand for the paths of the
    trial. `timeout` is for one run, in seconds. `tell` is told what is done, in a line.
    """

    script: Path
    folder: Path
    arguments: Sequence[str] = DEFAULT_ARGUMENTS
    timeout: float = 300.0
    tell: Callable[[str], None] = field(default=lambda _: None)
    children: Children = field(default_factory=Children)

    def run(self, work: Path, record: Path, kill_at: Passage | None = None) -> int:
        """Run it once in a child process; the exit code, negative for a signal.

        The points it passes are noted in the file `record`, what it prints in `record` with
        ".log" after its name.
        """
        places = {
            "{checkpoint}": str(work / "checkpoint"),
            "{output}": str(work / "output"),
            "{work}": str(work),
        }
        arguments = [_filled_in(argument, places) for argument in self.arguments]
        at = "-" if kill_at is None else str(kill_at)
        command = [sys.executable, "-m", "penstock.testing.crash_child", str(record), at]
        child = self.children.start([*command, str(self.script), *arguments], log_of(record))
        try:
            code = child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise ExecutionError(
                f"{self.script} did not end within {self.timeout:g} s; let its queries run "
                "with trigger(availableNow=True), and wait for their end"
            ) from None
        finally:
            self.children.end(child)
        if self.children.are_ended:
            raise TestInterruptedError
        return code


def log_of(record: Path) -> Path:
    """Where what a run prints is kept."""
    return record.with_name(f"{record.name}.log")


def _filled_in(argument: str, places: dict[str, str]) -> str:
    for place, path in places.items():
        argument = argument.replace(place, path)
    return argument


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
