"""Formats and parses timestamps in milliseconds since the epoch."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

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
    date = f"{sign}{of_era:04d}-{moment.month:02d}-{moment.day:02d}"
    time = f"{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}"
    return f"{date}T{time}.{millis % 1000:03d}Z"


def to_the_second(millis: int) -> str:
    """A timestamp for a table: `2026-11-16 09:30:00`, in UTC."""
    date, _, time = format_timestamp(millis).partition("T")
    return f"{date} {time.partition('.')[0]}"


def parse_timestamp(text: str) -> int:
    """The milliseconds of a time in ISO 8601 with its zone, rounded down.

    Raises ValueError, with a message for users, for any other text. A time without a zone is
    refused, because it could be local time or UTC.
    """
    example = "for example 2026-11-01T00:00Z or 2026-11-01T01:00+01:00"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time in ISO 8601. Write it with its zone, {example}."
        ) from None
    if moment.tzinfo is None:
        raise ValueError(
            f"{text!r} has no time zone. Add Z for UTC, or the offset from it, {example}."
        )
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(milliseconds=1)
