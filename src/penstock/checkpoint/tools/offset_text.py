"""Describes offsets: the kind of their source, and the difference between two of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.checkpoint.offset_numbers import is_whole_number, matched_values

NOT_STARTED = "-"

_KINDS = (
    ({"logOffset"}, "files"),
    ({"reservoirVersion"}, "Delta table"),
    ({"snapshot_id", "position"}, "Iceberg table"),
    ({"shardId"}, "Kinesis shards"),
)


def kind_of(offset: str | None) -> str:
    """The kind of source, derived from the keys of an offset; `unknown` if they are not known."""
    value = _parsed(offset)
    if is_whole_number(value):
        return "counter"
    if not isinstance(value, dict):
        return "unknown"
    for keys, kind in _KINDS:
        if keys <= value.keys():
            return kind
    if value and all(_is_partition_map(inner) for inner in value.values()):
        return "Kafka topics"
    return "unknown"


def movement(old: str | None, new: str | None) -> str:
    """The difference between two offsets: `+120` if they have numbers, else a word."""
    if old == new:
        return "unchanged"
    if new is None:
        return "lost its offset"
    if old is None:
        return "started"
    pairs = [
        (before, after)
        for before, after in matched_values(_parsed(old), _parsed(new))
        if is_whole_number(after)
    ]
    if not pairs:
        return "changed"
    known = [(before, after) for before, after in pairs if is_whole_number(before)]
    difference = sum(after for _, after in pairs) - sum(before for before, _ in known)
    text = f"{difference:+,}"
    went_back = any(after < before for before, after in known)
    return f"{text}, partly back" if went_back and difference > 0 else text


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as text, with ranges: `1 to 4, 7`."""
    parts: list[tuple[int, int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def _parsed(offset: str | None) -> Any:
    if offset is None:
        return None
    try:
        return json.loads(offset)
    except ValueError:
        return offset


def _is_partition_map(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(str(key).isdigit() and isinstance(number, int) for key, number in value.items())
    )
