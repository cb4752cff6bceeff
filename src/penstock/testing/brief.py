"""Errors in one line."""

from __future__ import annotations


def in_brief(error: BaseException) -> str:
    """What an error, or what caused it, says in its first line."""
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0]}" if lines else type(cause).__name__
