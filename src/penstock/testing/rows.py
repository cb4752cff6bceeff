"""Conversion and comparison of the rows of a test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import MapType, StructType

_DIGITS = 9
"""The number of significant digits to which floating-point numbers are compared."""


def as_tuple(row: Any, schema: StructType) -> tuple[Any, ...]:
    """Convert a row to a tuple in the order of the schema's columns.

    A tuple or list has the values by position; a dict, or a Row with names, by name, where a
    column that is missing in a dict is null. If the schema has one column, any other value is the
    value of that column, as are a list and, for a map column, a dict without the column's name.
    Raises ValueError if the row does not fit the schema.
    """
    names = schema.names
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        return _by_name(row.asDict(), names, may_lack=False)
    if len(names) == 1 and _is_value(row, schema):
        return (row,)
    if isinstance(row, Mapping):
        return _by_name(row, names, may_lack=True)
    if isinstance(row, (tuple, list)):
        if len(row) != len(names):
            raise ValueError(
                f"{tuple(row)!r} has {len(row)} values, but the columns are {', '.join(names)}"
            )
        return tuple(row)
    raise ValueError(
        f"{row!r} is not a row of the columns {', '.join(names)}; use a tuple, a dict or a Row"
    )


def _is_value(row: Any, schema: StructType) -> bool:
    if isinstance(row, Mapping):
        return isinstance(schema[0].dataType, MapType) and set(row) != set(schema.names)
    return not isinstance(row, tuple)


def _by_name(row: Mapping[str, Any], names: Sequence[str], *, may_lack: bool) -> tuple[Any, ...]:
    unknown = [name for name in row if name not in names]
    lacking = [] if may_lack else [name for name in names if name not in row]
    if unknown or lacking:
        raise ValueError(
            f"a row with the columns {', '.join(row)} does not fit the columns {', '.join(names)}"
        )
    return tuple(row.get(name) for name in names)


def row_key(row: Iterable[Any]) -> Hashable:
    """A key that is equal for rows that are considered equal.

    Floating-point numbers are compared to nine significant digits, NaN is equal to NaN, and
    datetimes are compared as instants, whatever their time zones.
    """
    return tuple(_key(value) for value in row)


def _key(value: Any) -> Hashable:
    match value:
        case bool():
            return ("bool", value)
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
        case datetime():
            return ("moment", value.timestamp())
        case bytearray():
            return bytes(value)
        case Mapping():
            return frozenset((_key(k), _key(v)) for k, v in value.items())
        case list() | tuple():
            return row_key(value)
        case Hashable():
            return value
        case _:
            return repr(value)


@dataclass(frozen=True)
class RowDifference:
    """The difference of two multisets of rows: the rows that one has more often."""

    missing: list[Any]
    extra: list[Any]

    @classmethod
    def between(cls, expected: Sequence[Any], actual: Sequence[Any]) -> RowDifference:
        return cls(_surplus(expected, actual), _surplus(actual, expected))

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)


def _surplus(rows: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    left = Counter(row_key(other) for other in others)
    surplus = []
    for row in rows:
        key = row_key(row)
        if left[key] > 0:
            left[key] -= 1
        else:
            surplus.append(row)
    return surplus


def side_by_side(expected: Sequence[Any], actual: Sequence[Any], *, ordered: bool = False) -> str:
    """A table of both, line by line: `-` marks a missing row, `+` an extra one.

    If `ordered`, line n has row n of both; otherwise equal rows are in the same line.
    """
    pairs = _paired_in_order(expected, actual) if ordered else _paired(expected, actual)
    texts = [("expected", "actual", " ")]
    texts += [
        ("" if left is None else repr(left[0]), "" if right is None else repr(right[0]), mark)
        for left, right, mark in pairs
    ]
    width = max(len(left) for left, _, _ in texts)
    lines = [f"{mark} {left:<{width}} | {right}".rstrip() for left, right, mark in texts]
    return "\n".join(lines)


_Pair = tuple[tuple[Any] | None, tuple[Any] | None, str]


def _paired_in_order(expected: Sequence[Any], actual: Sequence[Any]) -> list[_Pair]:
    pairs: list[_Pair] = []
    for n in range(max(len(expected), len(actual))):
        left = (expected[n],) if n < len(expected) else None
        right = (actual[n],) if n < len(actual) else None
        same = left and right and row_key(left[0]) == row_key(right[0])
        pairs.append((left, right, " " if same else "-" if right is None else "+"))
    return pairs


def _paired(expected: Sequence[Any], actual: Sequence[Any]) -> list[_Pair]:
    by_key: dict[Hashable, list[Any]] = {}
    for row in actual:
        by_key.setdefault(row_key(row), []).append(row)
    pairs: list[_Pair] = []
    for row in expected:
        equal = by_key.get(row_key(row))
        pairs.append(((row,), (equal.pop(0),), " ") if equal else ((row,), None, "-"))
    pairs += [(None, (row,), "+") for rows in by_key.values() for row in rows]
    return pairs
