"""The arguments of `DataStreamWriter.quarantine`."""

from __future__ import annotations

import os

from penstock.engine.quarantine import QuarantineRules
from penstock.errors import ExecutionError


def quarantine_rules(
    path: str | os.PathLike[str], after: object, max_parts: object, max_parts_per_day: object
) -> QuarantineRules:
    """The rules of a quarantine. Raises ExecutionError for a number below 1 and an empty path."""
    text = os.fspath(path)
    if not text:
        raise ExecutionError("quarantine() needs a directory for what it puts aside; it got ''")
    return QuarantineRules(
        text,
        _number("after", after),
        _number("max_parts", max_parts),
        _number("max_parts_per_day", max_parts_per_day),
    )


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ExecutionError(
            f"quarantine({name}={value!r}): it has to be a whole number of at least 1"
        )
    return value
