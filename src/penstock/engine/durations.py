"""Durations as text, such as `10 seconds`."""

from __future__ import annotations

import re

_UNIT_MS = {
    "millisecond": 1,
    "ms": 1,
    "second": 1000,
    "sec": 1000,
    "minute": 60_000,
    "min": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_WHOLE = re.compile(rf"\s*(?:{_PART.pattern}\s*)+", re.IGNORECASE)


def parse_duration(text: str, what: str) -> int:
    """The milliseconds of a duration: numbers with units from milliseconds to weeks.

    Raises ValueError, which names `what` the duration is for, if it is not one or is below 1 ms.
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} is a text such as '10 seconds', not {text!r}")
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{what} is {text!r}, not a duration such as '10 seconds' or '1 minute'")
    total = sum(float(number) * _unit_ms(unit, text, what) for number, unit in _PART.findall(text))
    if total < 1:
        raise ValueError(f"{what} is {text!r}; it must be at least 1 millisecond")
    return round(total)


def _unit_ms(unit: str, text: str, what: str) -> int:
    known = unit.lower()
    found = _UNIT_MS.get(known) or _UNIT_MS.get(known.removesuffix("s"))
    if found is None:
        raise ValueError(
            f"{what} is {text!r}, and {unit!r} is no unit of it: use milliseconds, seconds, "
            "minutes, hours, days or weeks"
        )
    return found
