"""Runs programs that are killed, and checks what their queries have left in their checkpoints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.streams import log_entries

_REPOSITORY = Path(__file__).parents[1]


class RunFailedError(Exception):
    """A run failed without being killed, or did not get to where it was to be killed."""


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


def newest(checkpoint: Path, log: str) -> int:
    """The newest batch in `offsets` or `commits`, or -1."""
    return max(log_entries(checkpoint, log), default=-1)


def log_violations(checkpoint: Path) -> list[str]:
    """What is wrong with the batches of the two logs; a right checkpoint has nothing at any time.

    Call it when no query is running.
    """
    offsets, commits = log_entries(checkpoint, "offsets"), log_entries(checkpoint, "commits")
    problems = []
    for log, entries in (("offsets", offsets), ("commits", commits)):
        if entries and entries != list(range(entries[0], entries[-1] + 1)):
            problems.append(f"{log} has gaps: {entries}")
    if max(offsets, default=-1) - max(commits, default=-1) not in (0, 1):
        problems.append(f"planned are {offsets}, committed are {commits}")
    return problems


def some(rows: object) -> str:
    """The beginning of a text about rows."""
    text = str(rows)
    return text if len(text) < 200 else f"{text[:200]}..."


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
