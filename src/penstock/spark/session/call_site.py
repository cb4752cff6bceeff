"""Where the user started a query, as Spark's web UI names the jobs and stages of its batches.

Spark searches the stack of the thread for the call site of every RDD and every job, unless local
properties of the thread name one. The thread of a query has no code of the user on its stack: the
search would take time and find nothing.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from dataclasses import dataclass
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from traceback import FrameSummary

import pyspark

_ENGINES = (
    f"{Path(__file__).parents[2]}{os.sep}",
    f"{Path(pyspark.__file__).parent}{os.sep}",
    contextlib.__file__,  # decorators of `start`
)
_MOST_FRAMES = 20
"""As many as in a call site that Spark has found."""


@dataclass(frozen=True)
class CallSite:
    """One line for the list of jobs, and the stack for the page of a job, innermost frame first."""

    short: str
    long: str


def current_call_site() -> CallSite:
    """The innermost frame of the stack that is not Penstock's or PySpark's, with its callers."""
    stack = traceback.extract_stack()[::-1]
    users = list(takewhile(_is_users, dropwhile(_is_engines, stack)))
    called = next((inner.name for inner, outer in pairwise(stack) if outer in users), "<unknown>")
    where = f"{Path(users[0].filename).name}:{users[0].lineno}" if users else "<unknown>:0"
    lines = [f"{f.filename}:{f.lineno}, in {f.name}" for f in users[:_MOST_FRAMES]]
    return CallSite(f"{called} at {where}", "\n".join([called, *lines]))


def _is_engines(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_ENGINES)


def _is_users(frame: FrameSummary) -> bool:
    return not _is_engines(frame)
