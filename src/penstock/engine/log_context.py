"""What is special about the engine's logging: one more level, whose record a record is, no secrets.

Every record that is made on a query's thread, by whatever logger, carries `query_id`, `run_id`,
`query_name` and `batch_id`. On all other threads these are NONE, so that a format may name them:

    logging.Formatter(
        "%(asctime)s %(levelname)s [%(query_name)s batch %(batch_id)s] %(message)s",
        defaults={"query_name": "-", "batch_id": "-"},  # for records made before the first query
    )

Records of Penstock's own loggers say nothing that the query's redactor hides, in the message and in
the traceback.
"""

from __future__ import annotations

import logging
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.redaction import DEFAULT_REDACTOR, Redactor

TRACE = 5
"""Finer than DEBUG."""

NONE = "-"
"""What stands in a record for what it has not: a query, a name, a batch."""

logging.addLevelName(TRACE, "TRACE")


@dataclass
class LogContext:
    """The query whose thread this is, and the batch it is at; -1 before there is one."""

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
    """From here on the records of this thread are the query's."""
    install_record_factory()
    _context.set(context)


def leave_query() -> None:
    """From here on they are nobody's again."""
    _context.set(None)


def enter_batch(batch_id: int) -> None:
    """From here on the records of this thread are the batch's. Nothing outside a query."""
    context = _context.get()
    if context is not None:
        context.batch_id = batch_id


def install_record_factory() -> None:
    """Let all records say whose they are. A factory that is there already still makes them."""
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
    """Hide secrets in a record. One that has none stays as it was made, arguments and all."""
    message = record.getMessage()
    shown = redactor.text(message)
    if shown != message:
        record.msg, record.args = shown, ()
    if record.exc_info:
        traceback = _FORMATTER.formatException(record.exc_info)
        shown = redactor.text(traceback)
        if shown != traceback:  # handlers that would format the error themselves get this text
            record.exc_text, record.exc_info = shown, None
