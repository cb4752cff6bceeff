"""The message of an error, complete or as one line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from penstock.errors import PenstockError

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_TRACEBACK = "Traceback (most recent call last):"


def error_text(error: BaseException) -> str:
    """An error's message; for one that is not Penstock's, with its class, as `KeyError: 'id'`."""
    message = shown(error)
    if isinstance(error, PenstockError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def one_line(text: str) -> str:
    """The first line of an error's text, without a Python traceback.

    If it ends with a colon, as `ParseException:`, the next line follows; if it ends where a
    traceback starts, the exception line of that traceback.
    """
    head, traceback, rest = text.partition(_TRACEBACK)
    first, *others = [line.strip() for line in head.split("\n") if line.strip()] or [""]
    if others and first.endswith(":"):
        return f"{first} {others[0]}"
    if not traceback or others:
        return first
    lines = [line for line in rest.split("\n") if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    raised = lines[frames[-1] + 1 :] if frames else lines
    if not raised or raised[0].strip() in first:
        return first
    return f"{first} {raised[0].strip()}".strip()


def or_else(step: Callable[[], _T], otherwise: _T) -> _T:
    """The result of a step of describing an error; `otherwise`, with a warning, if it raises.

    A failure is then reported with less, instead of being replaced by the error of the step.
    """
    try:
        return step()
    except Exception:
        _logger.warning("An error could not be described completely", exc_info=True)
        return otherwise


def shown(thing: object) -> str:
    """`str(thing)`; if that raises, a text that says so.

    A plan or an error of Spark cannot be shown any more once the JVM has exited.
    """
    try:
        return str(thing)
    except Exception as exc:
        return f"({type(thing).__name__}, which cannot be shown: {exc!r})"
