"""What Spark raises, told apart and unwrapped: the boundary between its errors and ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import (
    CapturedException,
    convert_exception,
)

from penstock.errors import ConcurrentUpdateError
from penstock.spark.gateway import Jvm

_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_SIGNS_OF_ANOTHER = (
    "Multiple streaming jobs detected for",  # the log of a file source
    "Race while writing batch",  # the log of a file sink
    "Multiple streaming queries are concurrently using",  # either, on a file system that renames
)
_MARK = "_penstock_of_batch_function"


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Raise what one of Spark's endpoints answered with, not the wrapper of whoever waited for it.

    The wrapper has neither a condition nor a message of its own.
    """
    try:
        yield
    except Py4JJavaError as exc:
        cause = None if exc.java_exception is None else exc.java_exception.getCause()
        if cause is None:
            raise
        raise convert_exception(cause) from None


def compilation_error(jvm: Jvm, name: str, *arguments: Any) -> Exception:
    """The error that Spark itself has for a mistake in a query, to be raised as PySpark would."""
    factory = jvm.cls("QueryCompilationErrors")
    return convert_exception(getattr(factory, name)(*arguments))


def is_interruption(error: BaseException, run_id: str) -> bool:
    """Whether an error, or one it was caused by, comes of cancelling the query of that run."""
    seen: BaseException | None = error
    while seen is not None:
        text = _full_text(seen)
        if any(name in text for name in _INTERRUPTIONS):
            return True
        if "cancelled" in text and run_id in text:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def translated(error: BaseException) -> BaseException:
    """Ours for what Spark's logs of files raise when another query has written their entry."""
    if not isinstance(error, (Py4JJavaError, CapturedException)):
        return error
    for message in _messages(error):
        if any(sign in message for sign in _SIGNS_OF_ANOTHER):
            concurrent = ConcurrentUpdateError(
                f"{message}\nPlease make sure only one streaming job runs on a specific "
                "checkpoint location at a time, and only one writes to an output path. "
                "Nothing of what the other has written was overwritten."
            )
            concurrent.__cause__ = error
            return concurrent
    return error


def _messages(error: Py4JJavaError | CapturedException) -> list[str]:
    """The messages of an error of the JVM and of what caused it, as far as the JVM still tells."""
    captured = isinstance(error, CapturedException)
    java_exception: Any = getattr(error, "_origin" if captured else "java_exception")
    messages: list[str] = []
    with contextlib.suppress(Exception):
        while java_exception is not None:
            messages.append(str(java_exception.getMessage()))
            java_exception = java_exception.getCause()
    return messages


def error_class(error: BaseException) -> str | None:
    """The condition of Spark's error framework that an error has, if it has one.

    Whatever a function raised that foreachBatch called has the one that Spark has for these.
    """
    if getattr(error, _MARK, False):
        return "FOREACH_BATCH_USER_FUNCTION_ERROR"
    holder: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    with contextlib.suppress(Exception):
        found = holder.getCondition()
        return found if isinstance(found, str) else None
    return None


def of_batch_function(error: BaseException) -> BaseException:
    """The same error, marked as raised by a function that foreachBatch called."""
    with contextlib.suppress(Exception):  # an error without room for it goes unmarked
        setattr(error, _MARK, True)
    return error


def _full_text(error: BaseException) -> str:
    """The message with the JVM's stack trace, in which the causes are named."""
    text = str(error)
    java_exception: Any = None
    if isinstance(error, Py4JJavaError):
        java_exception = error.java_exception
    elif isinstance(error, CapturedException):
        text += str(error._stackTrace or "")
        java_exception = error._origin
    elif isinstance(error, Py4JError):
        return text
    while java_exception is not None:
        with contextlib.suppress(Exception):
            text += f"\n{java_exception.toString()}"
            java_exception = java_exception.getCause()
            continue
        break
    return text
