"""Classifies, unwraps and translates the exceptions that Spark and py4j raise."""

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

from penstock.engine.causes import with_causes
from penstock.engine.error_text import error_text
from penstock.errors import ConcurrentUpdateError, PenstockError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.lines import SparkLine
from penstock.spark.jvm.pyspark_api import (
    HAS_CONDITIONS,
    condition_of,
    description_of,
    stack_of,
)

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
_THROWN = re.compile(r"[\w.$]+: (?P<message>.*?\n\nDriver stacktrace:|.*?)\n\tat ", re.DOTALL)
"""Of a JVM stack trace. The message of a failed job, which ends like that, has one of its own."""

_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]*)\] ")


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Context manager: unwraps the SparkException around an error of a remote RPC endpoint.

    The wrapper has neither an error condition nor a message of its own, so its cause is raised.
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
    """Return the error of Spark's QueryCompilationErrors with this name as PySpark's exception."""
    factory = jvm.cls("QueryCompilationErrors")
    return convert_exception(getattr(factory, name)(*arguments))


def is_interruption(jvm: Jvm, error: BaseException, run_id: str) -> bool:
    """Whether an error, or one of its causes, is the result of cancelling the run `run_id`."""
    for seen in with_causes(error):
        throwable = _throwable(seen)
        if throwable is not None:
            if _comes_of_cancelling(jvm, throwable, run_id):
                return True
        elif isinstance(seen, (Py4JError, CapturedException)):
            text = str(seen)  # no JVM exception is attached, only its text
            if any(name in text for name in _INTERRUPTIONS) or _is_cancelled(text, run_id):
                return True
    return False


def _comes_of_cancelling(jvm: Jvm, throwable: Any, run_id: str) -> bool:
    """Whether a throwable or one of its causes is an interruption or reports a cancelled job.

    Compares with isInstance, so that a subclass counts: a SocketTimeoutException is an
    InterruptedIOException.
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
    """The JVM exception that an error wraps, if there is one."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def translated(error: BaseException) -> BaseException:
    """Convert a py4j error to PySpark's; to Penstock's if another query wrote the log entry."""
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

    It holds the JVM stack trace, but `str()` of it does not. Returns `error` itself if the JVM no
    longer responds.
    """
    java_exception: Any = error.java_exception
    try:
        converted = convert_exception(java_exception)
    except Exception:
        return error
    if isinstance(converted, UnknownException):
        converted._origin = java_exception
    if is_of_batch_function(error):
        of_batch_function(converted)
    converted.__traceback__ = error.__traceback__
    return converted


def error_message(error: BaseException, line: SparkLine) -> str:
    """Spark's message for a query that failed with `error`; for a Python error with traceback."""
    if is_of_batch_function(error):
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
    if isinstance(error, PenstockError):
        return error.text(with_sql_state=HAS_CONDITIONS)
    text = error_text(error)
    if isinstance(error, Py4JError):
        return text
    return f"{text}\n{_python_traceback(error)}"


def _message_in(stack_trace: str) -> str | None:
    """Extract the message of the exception that the JVM has thrown from its stack trace.

    If a Python worker is the cause, PySpark before 4.2 keeps the stack trace, but neither the
    exception nor its message: it has those of the cause.
    """
    found = _THROWN.match(stack_trace)
    return found["message"] if found else None


def stack_trace(error: BaseException) -> str | None:
    """The JVM stack trace of an error; None if it did not come from the JVM."""
    if isinstance(error, CapturedException) and not is_of_batch_function(error):
        return stack_of(error)
    return None


def _python_traceback(error: BaseException) -> str:
    """The traceback, starting at the first frame outside Penstock."""
    first = error.__traceback__
    while first is not None and _is_ours(first):
        first = first.tb_next
    lines = traceback.format_exception(type(error), error, first or error.__traceback__)
    return "".join(lines)


def _is_ours(frame: TracebackType) -> bool:
    module = str(frame.tb_frame.f_globals.get("__name__", ""))
    return module.startswith(("penstock.", "py4j."))


def _messages(error: BaseException) -> list[str]:
    """The messages of a JVM error and of its causes, as far as the JVM still responds."""
    java_exception: Any = getattr(error, "_origin", None)
    messages: list[str] = []
    with contextlib.suppress(Exception):
        while java_exception is not None:
            messages.append(str(java_exception.getMessage()))
            java_exception = java_exception.getCause()
    return messages


def error_class(error: BaseException, line: SparkLine) -> str | None:
    """The error condition of an error in Spark's error framework, if it has one.

    An exception of a foreachBatch function has Spark's condition for those.
    """
    if is_of_batch_function(error):
        return _BATCH_FUNCTION_ERROR if line.has_batch_function_error else None
    if isinstance(error, PenstockError):
        return None if error.condition is None else error.condition.name
    if isinstance(error, CapturedException) and error._origin is None:
        found = _CONDITION.match(_message_in(stack_of(error) or "") or "")
        return found["name"] if found else None
    holder: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    with contextlib.suppress(Exception):
        condition = condition_of(holder)
        return condition if isinstance(condition, str) else None
    return None


def of_batch_function(error: BaseException) -> BaseException:
    """Mark an error as raised by a foreachBatch function and return it."""
    with contextlib.suppress(Exception):  # some exceptions allow no attributes
        setattr(error, _MARK, True)
    return error


def is_of_batch_function(error: BaseException | None) -> bool:
    """Whether an error is marked as raised by a foreachBatch function."""
    return bool(getattr(error, _MARK, False))
