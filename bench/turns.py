"""Lets processes run in turns of a few seconds, so that all meet the machine at the same speed.

The speed of a machine that is shared changes within minutes. Processes that are measured one after
the other then differ by that change; in short turns they do not. A process that is not at its turn
is stopped with SIGSTOP, with all its children. The parent writes each pause to a file, by which the
process that is measured knows its own time, without the pauses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_PAUSES = "PENSTOCK_BENCH_PAUSES"


class Pause(NamedTuple):
    """When a process was stopped and continued, in seconds since the epoch."""

    begin: float
    end: float


def run_in_turns(commands: Mapping[str, Sequence[str]], turn_seconds: float) -> dict[str, str]:
    """Run all commands to their end, in turns; returns what each wrote to its standard output."""
    with tempfile.TemporaryDirectory(prefix="penstock-turns-") as folder:
        players = {
            name: _Player(command, Path(folder) / name) for name, command in commands.items()
        }
        try:
            while running := [player for player in players.values() if player.is_running]:
                for player in running:
                    player.take_turn(turn_seconds)
        finally:
            for player in players.values():
                player.kill()
        return {name: player.output() for name, player in players.items()}


class _Player:
    """A process that is stopped, except during its turns."""

    def __init__(self, command: Sequence[str], stem: Path) -> None:
        self._output = stem.with_suffix(".out")
        self._pauses = stem.with_suffix(".pauses")
        self._pauses.touch()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, _PAUSES: str(self._pauses)},
                start_new_session=True,
            )
        self._stop()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def take_turn(self, seconds: float) -> None:
        with self._pauses.open("a") as pauses:
            pauses.write(f"{self._stopped_at} {time.time()}\n")
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._stop()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        return self._output.read_text()

    def _stop(self) -> None:
        self._signal(signal.SIGSTOP)
        self._stopped_at = time.time()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.killpg(self._process.pid, number)


def pauses() -> list[Pause]:
    """The pauses of this process until now; none if it does not run in turns."""
    path = os.environ.get(_PAUSES)
    if path is None:
        return []
    return [Pause(*map(float, line.split())) for line in Path(path).read_text().splitlines()]


def own_time() -> float:
    """The time in seconds, without the pauses of this process. Only differences have a meaning."""
    return time.time() - sum(pause.end - pause.begin for pause in pauses())


def sleep(seconds: float) -> None:
    """Wait for a time in which this process is at its turn."""
    end = own_time() + seconds
    while (left := end - own_time()) > 0:
        time.sleep(min(left, 0.2))


def was_paused(begin: float, end: float) -> bool:
    """Whether a pause of this process overlaps a span of time, in seconds since the epoch."""
    return any(pause.begin < end and begin < pause.end for pause in pauses())
