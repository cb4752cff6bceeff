"""Runs programs in sessions of their own, so that they can be killed with what they start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, in a session of its own that is killed after the block, so that none is left.

    It runs in the directory of the project; `environment` is added to the one of this process.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield child
    finally:
        kill_session(child)
        child.wait()


def kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kill a process of `running` with everything that it has started, its JVM too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def is_session_over(child: subprocess.Popen[bytes]) -> bool:
    """Whether everything that a process of `running` has started has ended."""
    try:
        os.killpg(child.pid, 0)
    except ProcessLookupError:
        return True
    return False


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
