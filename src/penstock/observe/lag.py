"""The lag of a query behind a source, computed from offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_MISSING = object()


def lag_between(reached: str | None, latest: str | None) -> int | float | None:
    """The difference of two offsets, given as JSON texts, in the source's own unit.

    Numbers are subtracted. For objects, such as `{"topic": {"0": 17}}`, the differences of all
    their numbers are added up; a number that only the latest offset has counts from 0. Returns
    None if an offset is missing or is not JSON, contains no numbers, or if the two differ in
    structure.
    """
    if reached is None or latest is None:
        return None
    try:
        old, new = json.loads(reached), json.loads(latest)
    except ValueError:
        return None
    differences = list(_differences(old, new))
    return None if not differences or None in differences else sum(d for d in differences if d)


def _differences(old: Any, new: Any) -> Iterator[int | float | None]:
    """The difference of each pair of numbers, at least 0; None for members that do not match."""
    if _is_number(new):
        if old is _MISSING:
            yield new
        else:
            yield max(new - old, 0) if _is_number(old) else None
    elif isinstance(new, dict):
        if not isinstance(old, dict) and old is not _MISSING:
            yield None
            return
        for name, member in new.items():
            below = old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
            yield from _differences(below, member)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
