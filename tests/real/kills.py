"""Kills a job again and again while its input goes on, and checks what it has written.

The job is a program that runs streaming queries in one process until it is killed. It writes the
process id of its JVM to the file `jvm.pid` in its directory, and ends by itself, with all input
processed, if its last argument is `drain`. One kill hits all its queries, each at another moment.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.crash.harness import log_violations, tail
from tests.real.parts import ROOT
from tests.real.servers import wait_until
from tests.streams import log_entries

PATIENCE = 600.0
"""Seconds after which a run that does not plan its next batches, or does not end, has failed."""

LONGEST_LIFE = 2.0
"""A kill comes up to so many seconds after every query has planned a batch."""


class Victim(Enum):
    """What is killed with SIGKILL. What is left has to end by itself."""

    PROCESS = "process"
    JVM = "JVM"


@dataclass(frozen=True)
class Strike:
    """The result of one kill; `in_flight` are the queries that had a batch planned and not done."""

    victim: Victim
    in_flight: tuple[str, ...]
    problems: tuple[str, ...]


class RunFailedError(Exception):
    """A run ended without being killed, or did not end when it should have."""


@dataclass
class KilledJob:
    """A job, the checkpoints of its queries by name, and a check of what they have written.

    `problems` is called after every kill, when no process of the job is running.
    """

    command: Sequence[str]
    directory: Path
    checkpoints: Mapping[str, Path]
    problems: Callable[[], list[str]]
    seed: int = 0
    strikes: list[Strike] = field(default_factory=list)

    def kill(self, victim: Victim) -> Strike:
        """Run the job until each query has planned a batch, kill it at a random moment, check."""
        chance = random.Random(f"{self.seed} {len(self.strikes)}")
        wanted = {name: latest + 1 for name, latest in self._planned().items()}
        with self._running() as child:
            self._await_batches(child, wanted)
            threading.Event().wait(chance.uniform(0, LONGEST_LIFE))
            if child.poll() is not None:
                raise RunFailedError(f"the job ended by itself:\n{tail(self.log)}")
            if victim is Victim.PROCESS:
                child.kill()
            else:
                os.kill(int((self.directory / "jvm.pid").read_text()), signal.SIGKILL)
            self._await_end(child)
        strike = Strike(victim, tuple(self._in_flight()), tuple(self._violations()))
        self.strikes.append(strike)
        return strike

    def drain(self) -> None:
        """Run the job to its end."""
        with self._running("drain") as child:
            try:
                code = child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise RunFailedError(f"the job did not end:\n{tail(self.log)}") from None
        if code != 0:
            raise RunFailedError(f"the job ended with {code}:\n{tail(self.log)}")

    @property
    def log(self) -> Path:
        return self.directory / "job.log"

    def _planned(self) -> dict[str, int]:
        return {
            name: max(log_entries(checkpoint, "offsets"), default=-1)
            for name, checkpoint in self.checkpoints.items()
        }

    def _in_flight(self) -> list[str]:
        return [
            name
            for name, latest in self._planned().items()
            if latest > max(log_entries(self.checkpoints[name], "commits"), default=-1)
        ]

    def _violations(self) -> list[str]:
        found = [
            f"{name}: {problem}"
            for name, checkpoint in self.checkpoints.items()
            for problem in log_violations(
                log_entries(checkpoint, "offsets"), log_entries(checkpoint, "commits")
            )
        ]
        return [*found, *self.problems()]

    def _await_batches(self, child: subprocess.Popen[bytes], wanted: Mapping[str, int]) -> None:
        def reached() -> bool:
            planned = self._planned()
            return all(planned[name] >= batch for name, batch in wanted.items())

        wait_until(lambda: child.poll() is not None or reached(), PATIENCE)
        if not reached():
            raise RunFailedError(f"the job did not get to {wanted}:\n{tail(self.log)}")

    def _await_end(self, child: subprocess.Popen[bytes]) -> None:
        """Wait until the process and the JVM have ended, without any further signal."""
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise RunFailedError(f"the process did not end:\n{tail(self.log)}") from None
        if not wait_until(lambda: not _group_exists(child.pid), PATIENCE):
            raise RunFailedError(f"the JVM did not end:\n{tail(self.log)}")

    @contextlib.contextmanager
    def _running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [*self.command, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
