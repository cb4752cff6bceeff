"""Checks what the queries of killed programs have left in their checkpoints."""

from __future__ import annotations

from pathlib import Path

from tests.streams import log_entries


class RunFailedError(Exception):
    """A run failed without being killed, or did not get to where it was to be killed."""


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
