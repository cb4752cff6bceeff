"""Kills a job again and again while its input goes on, and checks what it has written.

The job is a program that runs streaming queries in one process until it is killed. It writes the
process id of its JVM to the file `jvm.pid` in its directory, and ends by itself, with all input
processed, if its last argument is `drain`. One kill hits all its queries, each at another moment.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.crash.pipelines import Rows
from tests.killing import RunFailedError, log_violations, newest, some
from tests.processes import is_session_over, running, tail
from tests.real.servers import wait_until

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


class Output(ABC):
    """What the queries of a job have written, compared with what they were sent, by name."""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """The queries."""

    @abstractmethod
    def written(self, name: str) -> Rows:
        """The rows that a query has written."""

    @abstractmethod
    def expected(self, name: str) -> Rows:
        """The rows that a query has written when everything that was sent is processed."""

    def extra_rows(self, name: str) -> Rows:
        """The rows of a query that are there twice, or were never sent. Right at any time.

        Windows too: one is written when the watermark has passed it, and all its rows were sent.
        """
        return self.written(name) - self.expected(name)

    def extra(self) -> list[str]:
        """What is there twice or wrong, in words. Right at any time."""
        found = {name: self.extra_rows(name) for name in self.names()}
        return [
            f"{name}: {rows.total()} rows twice or wrong: {some(rows)}"
            for name, rows in found.items()
            if rows
        ]

    def lost(self) -> list[str]:
        """What was sent and is not there, in words. Right when everything is processed."""
        found = {name: self.expected(name) - self.written(name) for name in self.names()}
        return [
            f"{name}: {rows.total()} rows lost: {some(rows)}"
            for name, rows in found.items()
            if rows
        ]


@dataclass
class KilledJob:
    """A job, the checkpoints of its queries by name, and what they have written."""

    command: Sequence[str]
    directory: Path
    checkpoints: Mapping[str, Path]
    output: Output
    seed: int = 0
    strikes: list[Strike] = field(default_factory=list)

    def kill_in_turns(self, count: int) -> None:
        """Kill each kind of victim so many times. Fails if anything is wrong after a kill."""
        for _ in range(count):
            for victim in Victim:
                strike = self.kill(victim)
                assert strike.problems == (), f"after kill {len(self.strikes)} ({victim.value})"

    def finish(self) -> None:
        """Process the rest of the input. Fails if a row is lost or there twice."""
        self.drain()
        assert (self.output.extra(), self.output.lost()) == ([], [])

    def in_flight(self, name: str) -> int:
        """How many kills came when a query had a batch planned and not committed."""
        return sum(name in strike.in_flight for strike in self.strikes)

    def kill(self, victim: Victim) -> Strike:
        """Run the job until each query has planned a batch, kill it at a random moment, check."""
        chance = random.Random(f"{self.seed} {len(self.strikes)}")
        wanted = {name: latest + 1 for name, latest in self._planned().items()}
        self.directory.mkdir(parents=True, exist_ok=True)
        with running(self.command, self.log) as child:
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
        with running([*self.command, "drain"], self.log) as child:
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
        return {name: newest(path, "offsets") for name, path in self.checkpoints.items()}

    def _in_flight(self) -> list[str]:
        return [
            name
            for name, latest in self._planned().items()
            if latest > newest(self.checkpoints[name], "commits")
        ]

    def _violations(self) -> list[str]:
        found = [
            f"{name}: {problem}"
            for name, checkpoint in self.checkpoints.items()
            for problem in log_violations(checkpoint)
        ]
        return [*found, *self.output.extra()]

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
        if not wait_until(lambda: is_session_over(child), PATIENCE):
            raise RunFailedError(f"the JVM did not end:\n{tail(self.log)}")
