"""The numbers inside two offsets, matched by position."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.checkpoint.offset_numbers import (
    MISSING,
    is_number,
    is_whole_number,
    matched_values,
)


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        (3, 10, [(3, 10)]),
        (MISSING, 10, [(MISSING, 10)]),
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 8}}, [(5, 9), (7, 8)]),
        ({"t": {"0": 5}}, {"t": {"0": 9, "1": 3}}, [(5, 9), (MISSING, 3)]),
        ({"t": {"0": 5}, "u": {"0": 1}}, {"t": {"0": 9}}, [(5, 9), (1, MISSING)]),
        (MISSING, {"t": {"0": 9, "1": 3}}, [(MISSING, 9), (MISSING, 3)]),
        ({"b": 1, "a": 2}, {"a": 3, "b": 4}, [(2, 3), (1, 4)]),
        ({}, {}, []),
        (MISSING, {}, []),
        ({"t": {}}, {}, []),
        (5, {"t": 1}, [(5, {"t": 1})]),
        ({"t": {}}, {"t": 1}, [({}, 1)]),
        ({"id": "x", "on": True}, {"id": "x", "on": False}, [("x", "x"), (True, False)]),
        ({"t": [1, 2]}, {"t": [3]}, [([1, 2], [3])]),
        ({"t": None}, {"t": 1}, [(None, 1)]),
    ],
)
def test_values_at_the_same_position_are_paired(
    old: Any, new: Any, pairs: list[tuple[Any, Any]]
) -> None:
    assert list(matched_values(old, new)) == pairs


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [
        (3, True, True),
        (-3, True, True),
        (1.5, True, False),
        (True, False, False),
        ("3", False, False),
        (None, False, False),
        (MISSING, False, False),
        ({}, False, False),
    ],
)
def test_what_counts_as_a_number(value: Any, number: bool, whole: bool) -> None:
    assert (is_number(value), is_whole_number(value)) == (number, whole)
