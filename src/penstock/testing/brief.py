"""Formats an error in one line."""

from __future__ import annotations


def in_brief(error: BaseException) -> str:
    """The class and the first line of the cause of an error, or of the error without a cause."""
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0]}" if lines else type(cause).__name__
