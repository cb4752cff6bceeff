"""The supervisor of `penstock run --restart on-failure`: restarts a command when it fails.

It is connected to the process of each run by a pair of sockets. The process sends a byte before it
runs the script, so that an exit code 2 without it is a usage error and not that of the script. The
connection ends with the supervisor, even if that is killed; then the process stops the script.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

import typer

from penstock.api.backoff import Backoff

_USAGE_ERROR = 2
_CONNECTION = "PENSTOCK_SUPERVISOR"
"""The environment variable with the file descriptor of the connection."""

STEADY_SECONDS = 600.0
"""How long a run has to last for the failures before it to be forgotten."""


def supervise(
    command: Sequence[str], policy: Backoff, steady_seconds: float = STEADY_SECONDS
) -> int:
    """Run a command, restart it when it fails as the policy allows, and return its exit code.

    Failures before a run that has lasted `steady_seconds` do not count.

    The exit code of a run that was killed by signal n is 128 + n, as in a shell. SIGTERM and
    SIGINT are forwarded to the command and prevent further restarts; so does SIGHUP, as SIGTERM,
    unless it is ignored, as under nohup. The environment of each run has the number of restarts in
    PENSTOCK_RESTARTS and the same PENSTOCK_WEB_TOKEN.
    """
    from penstock.observe.observatory import RESTARTS_VARIABLE

    environment = {"PENSTOCK_WEB_TOKEN": secrets.token_urlsafe(16), **os.environ}
    failures = 0
    with Stopper.on_signals() as stopper:
        for restarts in itertools.count():
            environment[RESTARTS_VARIABLE] = str(restarts)
            began = time.monotonic()
            code, has_run = _run(command, environment, stopper)
            failures = 1 if time.monotonic() - began >= steady_seconds else failures + 1
            is_usage_error = code == _USAGE_ERROR and not has_run
            if code == 0 or is_usage_error or stopper.is_requested:
                return code
            ended = f"penstock: the script exited with code {code}"
            if failures > policy.max_restarts:
                _tell(f"{ended}; giving up after {policy.max_restarts} restarts in a row")
                return code
            delay = policy.delay(failures)
            _tell(f"{ended}; restart {failures} of {policy.max_restarts} in {delay:g} s")
            if stopper.wait(delay):
                return code
    raise AssertionError("the loop returns")


def connect_to_supervisor() -> None:
    """Tell the supervisor of this process that the script is run now, and stop when it ends.

    Has no effect in a process without a supervisor. The processes that the script starts have none.
    """
    descriptor = os.environ.pop(_CONNECTION, None)
    if descriptor is None:
        return
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    connection.settimeout(None)  # also if the process has a default timeout
    with contextlib.suppress(OSError):
        connection.send(b"\0")
    threading.Thread(
        target=_stop_with_supervisor, args=(connection,), name="penstock-supervisor", daemon=True
    ).start()


def _stop_with_supervisor(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


class Stopper:
    """Forwards signals to the running process."""

    def __init__(self) -> None:
        self.is_requested = False
        self._process: subprocess.Popen[bytes] | None = None
        # A pipe: a handler runs inside the wait that it ends, where an Event would deadlock.
        self._wake_up, self._woken = os.pipe()

    @classmethod
    @contextlib.contextmanager
    def on_signals(cls) -> Iterator[Stopper]:
        """Handle the signals in the block, and restore the previous handlers after it."""
        stopper = cls()
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, stopper._forward) for number in numbers}
        try:
            yield stopper
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(stopper._wake_up)
            os.close(stopper._woken)

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """Forward signals to this process from now on."""
        self._process = process
        if self.is_requested:  # the signal came before there was a process to forward it to
            process.terminate()

    def wait(self, seconds: float) -> bool:
        """Wait for a signal; returns whether there was one."""
        return bool(select.select([self._wake_up], [], [], seconds)[0])

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self.is_requested and number == signal.SIGHUP:
            return  # a terminal sends several; a second signal would stop the queries at once
        if not self.is_requested:
            os.write(self._woken, b"\0")
        self.is_requested = True
        if self._process is not None and self._process.poll() is None:
            # At SIGHUP, which kills a script, its queries could not end their batches.
            self._process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)


def _run(
    command: Sequence[str], environment: Mapping[str, str], stopper: Stopper
) -> tuple[int, bool]:
    """Run a command once; returns its exit code as in a shell, and whether it ran the script."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                command,
                start_new_session=True,
                env={**environment, _CONNECTION: str(theirs.fileno())},
                pass_fds=(theirs.fileno(),),
            )
        stopper.attach(process)
        code = process.wait()
        ours.setblocking(False)
        try:
            has_run = bool(ours.recv(1))
        except OSError:
            has_run = False
    return (code if code >= 0 else 128 - code), has_run


def _tell(text: str) -> None:
    """Print a line to standard error, if that still exists."""
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)
