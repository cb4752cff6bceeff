"""Formats timestamps, given in milliseconds since the epoch."""

from __future__ import annotations

from datetime import datetime, timezone

_FOUR_CENTURIES_MS = 146_097 * 24 * 3_600 * 1_000
"""The period of the Gregorian calendar."""


def format_timestamp(millis: int) -> str:
    """A timestamp as in Spark's progress: ISO 8601 in UTC with milliseconds.

    Accepts any number, since a column of event times may have arbitrary values. As in Java, a year
    after 9999 has a plus sign, and a year before 1 is written as its number in the era BC.
    """
    cycles, within = divmod(millis, _FOUR_CENTURIES_MS)
    moment = datetime.fromtimestamp(within // 1000, tz=timezone.utc)
    year = moment.year + 400 * cycles
    of_era = year if year > 0 else 1 - year
    sign = "+" if of_era > 9999 else ""
    return f"{sign}{of_era:04d}-{moment:%m-%dT%H:%M:%S}.{millis % 1000:03d}Z"


def to_the_second(millis: int) -> str:
    """A timestamp for a table: `2026-11-16 09:30:00`, in UTC."""
    date, _, time = format_timestamp(millis).partition("T")
    return f"{date} {time.partition('.')[0]}"
