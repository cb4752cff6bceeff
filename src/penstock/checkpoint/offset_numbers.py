"""The numbers inside the JSON of two offsets of one source, matched by their position.

An offset is a JSON number, or an object that holds numbers at some depth, such as Kafka's
`{"topic": {"0": 17}}`. Callers sum up the differences under rules of their own: how many rows a
query is behind, how far a batch came, where the middle of a batch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

MISSING = object()
"""Stands for the value that one of two offsets does not have."""


def matched_values(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of the values at the same position in two parsed offsets.

    Objects are descended into, member by member in the order of `new`. A member that only one of
    the two has is paired with `MISSING`, and so is every value below it. Where one side has an
    object and the other a value that is no object, the two are yielded as a pair. Arrays are
    values, not descended into. Pass `MISSING` as `old` for a source that has no offset yet.
    """
    olds = {} if old is MISSING else old
    news = {} if new is MISSING else new
    if isinstance(olds, dict) and isinstance(news, dict):
        for name in {**news, **olds}:
            yield from matched_values(olds.get(name, MISSING), news.get(name, MISSING))
    else:
        yield old, new


def is_whole_number(value: Any) -> TypeGuard[int]:
    """Whether a JSON value is a number without a fraction. `true` and `false` are not numbers."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number. `true` and `false` are not numbers."""
    return is_whole_number(value) or isinstance(value, float)
