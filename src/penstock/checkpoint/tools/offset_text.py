"""Offsets and numbers for people: what kind of source they come from, and how far they moved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

NOT_STARTED = "-"

_KINDS = (
    ({"logOffset"}, "files"),
    ({"reservoirVersion"}, "Delta table"),
    ({"snapshot_id", "position"}, "Iceberg table"),
    ({"shardId"}, "Kinesis shards"),
)


def kind_of(offset: str | None) -> str:
    """What the shape of an offset tells of its source; `unknown` where it tells nothing."""
    value = _parsed(offset)
    if isinstance(value, int) and not isinstance(value, bool):
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
    """How far a source came between two offsets: `+120` where they are numbers, else a word."""
    if old == new:
        return "unchanged"
    if new is None:
        return "lost its offset"
    if old is None:
        return "started"
    before, after = _numbers(_parsed(old)), _numbers(_parsed(new))
    if not after:
        return "changed"
    difference = sum(after.values()) - sum(before.get(key, 0) for key in after)
    went_back = any(after[key] < before[key] for key in after.keys() & before.keys())
    text = f"{difference:+,}"
    return f"{text}, partly back" if went_back and difference > 0 else text


def ranges(numbers: Sequence[int]) -> str:
    """`1 to 4, 7` for ascending numbers."""
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


def _numbers(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Every whole number in a value, by where it is."""
    if isinstance(value, bool):
        return {}
    if isinstance(value, int):
        return {path: value}
    items = value.items() if isinstance(value, dict) else ()
    found: dict[tuple[str, ...], int] = {}
    for key, inner in items:
        found |= _numbers(inner, (*path, str(key)))
    return found
