"""Conversion of rows, and the difference of two collections of rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.testing.rows import RowDifference, as_tuple, row_key, side_by_side

PAIR = StructType([StructField("a", LongType()), StructField("b", StringType())])
ONE = StructType([StructField("a", LongType())])
ARRAY = StructType([StructField("a", ArrayType(LongType()))])
MAP = StructType([StructField("a", MapType(StringType(), LongType()))])


@pytest.mark.parametrize(
    ("row", "schema", "expected"),
    [
        ((1, "x"), PAIR, (1, "x")),
        ([1, "x"], PAIR, (1, "x")),
        ({"b": "x", "a": 1}, PAIR, (1, "x")),
        ({"b": "x"}, PAIR, (None, "x")),
        (Row(b="x", a=1), PAIR, (1, "x")),
        (Row("1", "x"), PAIR, ("1", "x")),
        (7, ONE, (7,)),
        (None, ONE, (None,)),
        ((7,), ONE, (7,)),
        ({"a": 7}, ONE, (7,)),
        ([1, 2], ARRAY, ([1, 2],)),
        (([1, 2],), ARRAY, ([1, 2],)),
        ({"k": 1}, MAP, ({"k": 1},)),
        ({"a": {"k": 1}}, MAP, ({"k": 1},)),
    ],
)
def test_every_form_of_a_row(row: Any, schema: StructType, expected: tuple[Any, ...]) -> None:
    assert as_tuple(row, schema) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1,), r"\(1,\) has 1 values, but the columns are a, b"),
        (1, "1 is not a row of the columns a, b"),
        ({"c": 1}, "columns c does not fit the columns a, b"),
        (Row(a=1), "columns a does not fit the columns a, b"),
    ],
)
def test_rows_that_do_not_fit_the_schema(row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_tuple(row, PAIR)


NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.1 + 0.2, 0.3),
        (float("nan"), float("nan")),
        (1, 1.0),
        (Decimal("1.50"), 1.5),
        (bytearray(b"x"), b"x"),
        ([1, {"k": 0.1 + 0.2}], (1, {"k": 0.3})),
        (Row(a=1), (1,)),
        (NOON, NOON.astimezone(timezone(timedelta(hours=5)))),
        (NOON, NOON.astimezone().replace(tzinfo=None)),
    ],
)
def test_values_that_are_considered_equal(left: Any, right: Any) -> None:
    assert row_key((left,)) == row_key((right,))


@pytest.mark.parametrize(("left", "right"), [(True, 1), (0.1, 0.2), (None, 0), ("1", 1)])
def test_values_that_are_considered_different(left: Any, right: Any) -> None:
    assert row_key((left,)) != row_key((right,))


def test_a_difference_counts_repeated_rows() -> None:
    difference = RowDifference.between([(1,), (1,), (2,)], [(2,), (1,), (3,), (3,)])
    assert difference.missing == [(1,)]
    assert difference.extra == [(3,), (3,)]
    assert not RowDifference.between([(1,), (2,)], [(2,), (1,)])


def test_side_by_side_unordered_aligns_equal_rows() -> None:
    assert side_by_side([("a", 1), ("b", 2)], [("c", 3), ("a", 1)]).splitlines() == [
        "  expected | actual",
        "  ('a', 1) | ('a', 1)",
        "- ('b', 2) |",
        "+          | ('c', 3)",
    ]


def test_side_by_side_ordered_aligns_by_position() -> None:
    assert side_by_side([(1,), (2,)], [(2,), (2,), (3,)], ordered=True).splitlines() == [
        "  expected | actual",
        "+ (1,)     | (2,)",
        "  (2,)     | (2,)",
        "+          | (3,)",
    ]
    assert side_by_side([(1,)], [], ordered=True).splitlines()[1] == "- (1,)     |"
