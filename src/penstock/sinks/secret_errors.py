"""Keeps the secrets of a sink's options out of the errors that it raises."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from penstock.engine.causes import with_causes
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
        texts = [str(cause) for cause in with_causes(exc)]
        if all(redactor.text(text) == text for text in texts):
            raise
        raise ExecutionError(redactor.text(f"{type(exc).__name__}: {exc}")) from None
