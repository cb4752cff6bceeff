"""Runs servers as child processes on loopback."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

START_SECONDS = 120.0
STOP_SECONDS = 60.0
LOOPBACK = "127.0.0.1"


class ServerError(Exception):
    """A server did not start or stop as it should."""


class Server(ABC):
    """A server with its own data directory, which it finds again when it is restarted.

    As a context manager it runs in the block.
    Start it on the main thread: it ends when the thread that started it does, so that none is left
    behind by tests that are killed.
    """

    name: str

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command that runs the server in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the running server answers."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers. Raises ServerError with its log if not."""
        if self.is_running:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not wait_until(lambda: not self.is_running or self.is_ready(), START_SECONDS):
            self.kill()
            raise ServerError(f"{self.name} did not answer in {START_SECONDS:g} s:\n{self._tail()}")
        if not self.is_running:
            raise ServerError(f"{self.name} has ended at its start:\n{self._tail()}")

    def stop(self) -> None:
        """Let the server shut down in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def ending_with_parent(*options: str) -> list[str]:
    """The beginning of a command that is killed when the thread that starts it ends.

    `options` are further ones of `setpriv`. Empty where there is no `setpriv` and no option.
    """
    if shutil.which("setpriv") is None and not options:
        return []
    return ["setpriv", *options, "--pdeathsig", "KILL", "--"]


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until a condition holds; returns whether it does."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.05)
    return True
