"""Logging: a TRACE level, the query and batch in every record, and redaction of secrets.

Every record made on a query's thread, by any logger, has the attributes `query_id`, `run_id`,
`query_name` and `batch_id`. On all other threads these are NONE, so that a format may use them:

    logging.Formatter(
        "%(asctime)s %(levelname)s [%(query_name)s batch %(batch_id)s] %(message)s",
        defaults={"query_name": "-", "batch_id": "-"},  # for records made before the first query
    )

In records of Penstock's own loggers, the query's redactor removes secrets from the message and the
traceback.
"""

from __future__ import annotations

import logging
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.redaction import DEFAULT_REDACTOR, Redactor

TRACE = 5
"""A logging level below DEBUG."""

NONE = "-"
"""The value in a record that has no query, no query name or no batch."""

logging.addLevelName(TRACE, "TRACE")


@dataclass
class LogContext:
    """The query that runs on a thread, and its current batch; -1 before the first batch."""

    query_id: str
    run_id: str
    query_name: str | None
    redactor: Redactor = DEFAULT_REDACTOR
    batch_id: int = -1


_context: ContextVar[LogContext | None] = ContextVar("penstock_query", default=None)
_install_lock = threading.Lock()
_OURS = __name__.partition(".")[0]
_FORMATTER = logging.Formatter()


def enter_query(context: LogContext) -> None:
    """Attach the records of this thread to a query from now on."""
    install_record_factory()
    _context.set(context)


def leave_query() -> None:
    """Detach the records of this thread from its query."""
    _context.set(None)


def enter_batch(batch_id: int) -> None:
    """Attach the records of this thread to a batch. Without a query this has no effect."""
    context = _context.get()
    if context is not None:
        context.batch_id = batch_id


def install_record_factory() -> None:
    """Wrap the current log record factory, so that every record names its query and batch."""
    with _install_lock:
        inner = logging.getLogRecordFactory()
        if not getattr(inner, "knows_queries", False):
            logging.setLogRecordFactory(_QueryRecordFactory(inner))


class _QueryRecordFactory:
    knows_queries = True

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*args, **kwargs)
        context = _context.get()
        batch_id = None if context is None or context.batch_id < 0 else context.batch_id
        record.query_id = context.query_id if context else NONE
        record.run_id = context.run_id if context else NONE
        record.query_name = (context.query_name if context else None) or NONE
        record.batch_id = NONE if batch_id is None else batch_id
        if record.name.partition(".")[0] == _OURS:
            _redact(record, context.redactor if context else DEFAULT_REDACTOR)
        return record


def _redact(record: logging.LogRecord, redactor: Redactor) -> None:
    """Hide secrets in a record. A record without secrets keeps its message and arguments."""
    try:
        message = record.getMessage()
    except Exception:  # an argument cannot be shown: the handlers report that, as for any record
        return
    shown = redactor.text(message)
    if shown != message:
        record.msg, record.args = shown, ()
    if record.exc_info:
        traceback = _FORMATTER.formatException(record.exc_info)
        shown = redactor.text(traceback)
        if shown != traceback:  # without exc_info, handlers use exc_text
            record.exc_text, record.exc_info = shown, None
