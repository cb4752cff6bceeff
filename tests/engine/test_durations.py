"""Durations as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 seconds", 10_000),
        ("1 second", 1_000),
        ("1 minute", 60_000),
        ("2 hours 30 minutes", 9_000_000),
        ("1.5 seconds", 1_500),
        ("500 milliseconds", 500),
        ("500 ms", 500),
        ("  7 Days ", 604_800_000),
        ("1 week", 604_800_000),
    ],
)
def test_a_duration_is_parsed(text: str, millis: int) -> None:
    assert parse_duration(text, "pace") == millis


@settings(deadline=None)
@given(st.integers(1, 10**9))
def test_every_number_of_milliseconds_is_a_duration(number: int) -> None:
    assert parse_duration(f"{number} milliseconds", "pace") == number


@pytest.mark.parametrize("text", ["", "soon", "10", "seconds", "10 seconds!", "-1 second"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^pace is .*, not a duration such as '10 seconds'"):
        parse_duration(text, "pace")


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(ValueError, match="'fortnights' is no unit of it: use milliseconds"):
        parse_duration("3 fortnights", "or_after")


def test_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="it must be at least 1 millisecond"):
        parse_duration("0 seconds", "or_after")


def test_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"or_after is a text such as '10 seconds', not 10"):
        parse_duration(10, "or_after")  # type: ignore[arg-type]  # what is tested
