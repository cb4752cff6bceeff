"""Numbers as names: of batches, entries, sources, operators and partitions."""

from __future__ import annotations

_TOO_LARGE = 2**63
"""The first number that is not a long in Java."""


def file_number(name: str) -> int | None:
    """The number that a name is in Spark's form; None if it is none.

    `7` is a number. `07`, `+7`, `.7.crc`, other digits than 0 to 9, and numbers that are too large
    for Java are not.
    """
    if not (name.isascii() and name.isdigit()) or (name.startswith("0") and name != "0"):
        return None
    number = int(name)
    return number if number < _TOO_LARGE else None
