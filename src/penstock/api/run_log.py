"""Formats the log records of Penstock like the log lines of Spark."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from penstock.engine.log_context import NONE

_ROOT = "penstock"
_TIME = "%y/%m/%d %H:%M:%S"
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class SparkLikeFormatter(logging.Formatter):
    """Time, level and logger as in Spark's default pattern, then the query and its batch.

        26/11/16 21:22:54 WARN penstock.engine.run_batch: [counts, batch 3] text

    A query without a name is shown by its id. Records outside a query have no brackets.
    """

    def __init__(self) -> None:
        super().__init__(datefmt=_TIME)

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's name
        level = _LEVELS.get(record.levelname, record.levelname)
        time = self.formatTime(record, self.datefmt)
        return f"{time} {level} {record.name}: {_query_prefix(record)}{record.message}"

    def usesTime(self) -> bool:  # logging's name
        return False  # formatMessage formats the time itself


class _LastResort(logging.Handler):
    """Replaces `logging.lastResort`: formats records of Penstock, passes others to `before`."""

    def __init__(self, before: logging.Handler) -> None:
        super().__init__(before.level)
        self._before = before
        self.setFormatter(SparkLikeFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != _ROOT:
            self._before.emit(record)
            return
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


@contextlib.contextmanager
def logging_like_spark() -> Iterator[None]:
    """In the block, print records of Penstock that have no handler in Spark's format.

    A program that configures logging gets them through its own handlers as usual.
    """
    before = logging.lastResort
    if before is not None:
        logging.lastResort = _LastResort(before)
    try:
        yield
    finally:
        logging.lastResort = before


def _query_prefix(record: logging.LogRecord) -> str:
    """`[name, batch N] ` of the query that logged the record; empty outside a query."""
    query_id = getattr(record, "query_id", NONE)
    if query_id == NONE:
        return ""
    name, batch = getattr(record, "query_name", NONE), getattr(record, "batch_id", NONE)
    shown = query_id if name == NONE else name
    return f"[{shown}] " if batch == NONE else f"[{shown}, batch {batch}] "
