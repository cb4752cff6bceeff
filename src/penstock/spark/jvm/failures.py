"""What Spark raises, told apart and unwrapped: the boundary between its errors and ours."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import (
    CapturedException,
    UnknownException,
    convert_exception,
)

from penstock.engine.error_text import error_text
from penstock.errors import ConcurrentUpdateError, PenstockError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.lines import SparkLine
from penstock.spark.jvm.pyspark_api import condition_of, description_of, stack_of

_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
_TELL_OF_JOBS = ("org.apache.spark.SparkException", "py4j.Py4JException")
_SIGNS_OF_ANOTHER = (
    "Multiple streaming jobs detected for",  # the log of a file source
    "Race while writing batch",  # the log of a file sink
    "Multiple streaming queries are concurrently using",  # either, on a file system that renames
)
_BATCH_FUNCTION_ERROR = "FOREACH_BATCH_USER_FUNCTION_ERROR"
_PROXY_ERROR = "An exception was raised by the Python Proxy. Return Message: "
_MARK = "_penstock_of_batch_function"
_FAILED_JOB = re.compile(r"[\w.]+: (?P<message>.*?\n\nDriver stacktrace:)\n\tat ", re.DOTALL)


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
        converted = convert_exception(cause)
        if isinstance(converted, UnknownException):
            raise Py4JJavaError(exc.errmsg, cause) from None
        raise converted from None


def compilation_error(jvm: Jvm, name: str, *arguments: Any) -> Exception:
    """The error that Spark itself has for a mistake in a query, to be raised as PySpark would."""
    factory = jvm.cls("QueryCompilationErrors")
    return convert_exception(getattr(factory, name)(*arguments))


def is_interruption(jvm: Jvm, error: BaseException, run_id: str) -> bool:
    """Whether an error, or one it was caused by, comes of cancelling the query of that run."""
    seen: BaseException | None = error
    while seen is not None:
        throwable = _throwable(seen)
        if throwable is not None:
            if _comes_of_cancelling(jvm, throwable, run_id):
                return True
        elif isinstance(seen, (Py4JError, CapturedException)):
            text = str(seen)  # all there is: the JVM's exception came as text
            if any(name in text for name in _INTERRUPTIONS) or _is_cancelled(text, run_id):
                return True
        seen = seen.__cause__ or seen.__context__
    return False


def _comes_of_cancelling(jvm: Jvm, throwable: Any, run_id: str) -> bool:
    """Whether a throwable or a cause of it is an interruption, or the end of a cancelled job.

    By class, so that a subclass counts: a SocketTimeoutException is an InterruptedIOException.
    """
    with contextlib.suppress(Py4JError):  # the JVM is gone
        while throwable is not None:
            if any(jvm.is_instance(throwable, name) for name in _INTERRUPTIONS):
                return True
            tells_of_jobs = any(jvm.is_instance(throwable, name) for name in _TELL_OF_JOBS)
            if tells_of_jobs and _is_cancelled(str(throwable.getMessage()), run_id):
                return True
            throwable = throwable.getCause()
    return False


def _is_cancelled(text: str, run_id: str) -> bool:
    return "cancelled" in text and run_id in text


def _throwable(error: BaseException) -> Any | None:
    """The JVM's exception behind an error, if there is one."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def translated(error: BaseException) -> BaseException:
    """An error of py4j's as PySpark's; ours where another query has written a log's entry."""
    if not isinstance(error, (Py4JJavaError, CapturedException)):
        return error
    if isinstance(error, Py4JJavaError):
        error = _captured(error)
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


def _captured(error: Py4JJavaError) -> CapturedException | Py4JJavaError:
    """PySpark's exception for an error of the JVM; with a condition also where PySpark has none.

    The JVM's stack is in it, but not in its text. As it is if the JVM does not tell any more.
    """
    java_exception: Any = error.java_exception
    try:
        converted = convert_exception(java_exception)
    except Exception:
        return error
    if isinstance(converted, UnknownException):
        converted._origin = java_exception
    if getattr(error, _MARK, False):
        of_batch_function(converted)
    converted.__traceback__ = error.__traceback__
    return converted


def error_message(error: BaseException, line: SparkLine) -> str:
    """What Spark says of the error when a query died of it; of one in Python, its traceback too."""
    if getattr(error, _MARK, False):
        if not line.has_batch_function_error:
            return f"{_PROXY_ERROR}{_python_traceback(error)}"
        reason = f"{error_text(error)}\n{_python_traceback(error)}"
        return (
            f"[{_BATCH_FUNCTION_ERROR}] An error occurred in the user provided function in foreach "
            f"batch sink. Reason: {reason} SQLSTATE: 39000"
        )
    if isinstance(error, CapturedException):
        if error._origin is not None:
            with contextlib.suppress(Exception):
                return str(error._origin.getMessage() or error._origin.toString())
        return _message_in(stack_of(error) or "") or description_of(error)
    text = error_text(error)
    if isinstance(error, (PenstockError, Py4JError)):
        return text
    return f"{text}\n{_python_traceback(error)}"


def _message_in(stack_trace: str) -> str | None:
    """The message of a failed job in the JVM's text of it.

    For an error in Python PySpark before 4.2 keeps the text, but neither the exception nor its
    message.
    """
    found = _FAILED_JOB.match(stack_trace)
    return found["message"] if found else None


def stack_trace(error: BaseException) -> str | None:
    """The JVM's text of an error with its stack, if the error is of the JVM."""
    if isinstance(error, CapturedException) and not getattr(error, _MARK, False):
        return stack_of(error)
    return None


def _python_traceback(error: BaseException) -> str:
    """The traceback from the first frame on that is not Penstock's own."""
    first = error.__traceback__
    while first is not None and _is_ours(first):
        first = first.tb_next
    lines = traceback.format_exception(type(error), error, first or error.__traceback__)
    return "".join(lines)


def _is_ours(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__", ""))
    return module.startswith(("penstock.", "py4j."))


def _messages(error: BaseException) -> list[str]:
    """The messages of an error of the JVM and of what caused it, as far as the JVM still tells."""
    java_exception: Any = getattr(error, "_origin", None)
    messages: list[str] = []
    with contextlib.suppress(Exception):
        while java_exception is not None:
            messages.append(str(java_exception.getMessage()))
            java_exception = java_exception.getCause()
    return messages


def error_class(error: BaseException, line: SparkLine) -> str | None:
    """The condition of Spark's error framework that an error has, if it has one.

    Whatever a function raised that foreachBatch called has the one that Spark has for these.
    """
    if getattr(error, _MARK, False):
        return _BATCH_FUNCTION_ERROR if line.has_batch_function_error else None
    if isinstance(error, PenstockError):
        return None if error.condition is None else error.condition.name
    holder: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    with contextlib.suppress(Exception):
        found = condition_of(holder)
        return found if isinstance(found, str) else None
    return None


def of_batch_function(error: BaseException) -> BaseException:
    """The same error, marked as raised by a function that foreachBatch called."""
    with contextlib.suppress(Exception):  # an error without room for it goes unmarked
        setattr(error, _MARK, True)
    return error
