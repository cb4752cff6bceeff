"""Formats an error in one line."""

from __future__ import annotations

_OF_PY4J = "An error occurred while calling "
"""Begins the first line of a Py4JJavaError; that of the Java exception begins with ": "."""


def in_brief(error: BaseException) -> str:
    """The class and the first line of the cause of an error, or of the error without a cause.

    Of an exception in the JVM that PySpark has not converted: the Java class and its message.
    """
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines()
    if not lines:
        return type(cause).__name__
    if lines[0].startswith(_OF_PY4J):
        of_java = [line[2:] for line in lines[1:] if line.startswith(": ")]
        if of_java:
            return of_java[0]
    return f"{type(cause).__name__}: {lines[0]}"
