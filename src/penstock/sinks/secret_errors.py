"""Keeps the secrets of a sink's options out of the errors that it raises."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from penstock.errors import ExecutionError
from penstock.redaction import Redactor


@contextlib.contextmanager
def without_secrets(options: Mapping[str, str]) -> Iterator[None]:
    """Context manager: raises an error whose text has a secret as ExecutionError without it.

    Other errors are raised as they are.
    """
    try:
        yield
    except Exception as exc:
        redactor = Redactor().knowing(options)
        if all(redactor.text(text) == text for text in _texts(exc)):
            raise
        raise ExecutionError(redactor.text(f"{type(exc).__name__}: {exc}")) from None


def _texts(error: BaseException | None) -> Iterator[str]:
    """The texts of an error and of its causes."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__
