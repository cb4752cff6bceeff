"""Formatting and parsing timestamps, including very early and very late ones."""

from __future__ import annotations

import pytest

from penstock.checkpoint.timestamps import format_timestamp, parse_timestamp, to_the_second


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_794_794_269_681, "2026-11-16T01:57:49.681Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (1_794_794_269_681_000, "+58844-10-06T19:48:01.000Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_001, "0001-12-31T23:59:59.999Z"),
        (-9_223_372_036_854_776, "+290309-12-21T19:59:05.224Z"),
    ],
)
def test_any_timestamp_is_formatted_as_in_java(millis: int, text: str) -> None:
    assert format_timestamp(millis) == text


def test_to_the_second() -> None:
    assert to_the_second(1_794_794_269_681) == "2026-11-16 01:57:49"
    assert to_the_second(1_794_794_269_681_000) == "+58844-10-06 19:48:01"


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00Z", 0),
        ("2026-11-16T01:57:49.681Z", 1_794_794_269_681),
        ("2026-11-16T02:57:49.681999+01:00", 1_794_794_269_681),
        (" 2026-11-16 01:57:49Z ", 1_794_794_269_000),
        ("1969-12-31T23:59:59.9995Z", -1),
    ],
)
def test_a_time_with_its_zone_is_parsed(text: str, millis: int) -> None:
    assert parse_timestamp(text) == millis


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-11-01T00:00", "has no time zone. Add Z for UTC"),
        ("2026-11-01", "has no time zone"),
        ("yesterday", "is not a time in ISO 8601. Write it with its zone, for example 2026"),
        ("", "is not a time"),
        ("1794794269681", "is not a time"),
    ],
)
def test_any_other_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_timestamp(text)
