"""The lag computed from two offsets."""

from __future__ import annotations

import pytest

from penstock.observe.lag import lag_between


@pytest.mark.parametrize(
    ("reached", "latest", "lag"),
    [
        ("3", "10", 7),
        ("1.5", "2", 0.5),
        ("10", "3", 0),
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}', 4),
        ('{"t":{"0":5}}', '{"t":{"0":9,"1":3}}', 7),
        ("{}", '{"t":{"0":4}}', 4),
        ('{"t":{"0":9,"1":1}}', '{"t":{"0":5,"1":2}}', 1),
        ('{"version":3,"id":"x"}', '{"version":5,"id":"x"}', 2),
        (None, "3", None),
        ("3", None, None),
        ("3", '{"a":1}', None),
        ('{"a":"x"}', '{"a":1}', None),
        ('"x"', '"y"', None),
        ("true", "true", None),
        ("not json", "3", None),
    ],
)
def test_lag(reached: str | None, latest: str | None, lag: float | None) -> None:
    assert lag_between(reached, latest) == lag
