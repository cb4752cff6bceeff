"""The lag computed from offsets, in the source's unit and in time."""

from __future__ import annotations

import pytest

from penstock.observe import lag
from penstock.observe.lag import SeenOffsets, catch_up_seconds, lag_between


@pytest.mark.parametrize(
    ("reached", "latest", "behind"),
    [
        ("3", "10", 7),
        ("1.5", "2", 0.5),
        ("10", "3", 0),
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}', 4),
        ('{"t":{"0":5}}', '{"t":{"0":9,"1":3}}', 7),
        ("{}", '{"t":{"0":4}}', 4),
        ('{"t":{"0":9,"1":1}}', '{"t":{"0":5,"1":2}}', 1),
        ('{"version":3,"id":"x"}', '{"version":5,"id":"x"}', 2),
        (
            '{"reservoirId":"x","reservoirVersion":3,"index":7}',
            '{"reservoirId":"x","reservoirVersion":5,"index":-1}',
            2,
        ),
        (
            '{"reservoirId":"x","reservoirVersion":3,"index":7}',
            '{"reservoirId":"y","reservoirVersion":5,"index":-1}',
            None,
        ),
        ('{"snapshot_id":99,"position":1}', '{"snapshot_id":7,"position":4}', None),
        (None, "3", None),
        ("3", None, None),
        ("3", '{"a":1}', None),
        ('{"a":"x"}', '{"a":1}', None),
        ('"x"', '"y"', None),
        ("true", "true", None),
        ("not json", "3", None),
    ],
)
def test_lag(reached: str | None, latest: str | None, behind: float | None) -> None:
    assert lag_between(reached, latest) == behind


@pytest.mark.parametrize(
    ("reached", "behind", "rate", "seconds"),
    [
        ('{"t":{"0":5}}', 100, 50.0, 2.0),
        ('{"t":{"0":5}}', 0, 0.0, 0.0),
        ('{"t":{"0":5}}', 100, 0.0, None),
        ('{"t":{"0":5}}', 100, float("nan"), None),
        ('{"t":{"0":5}}', 100, float("inf"), None),
        ('{"t":{"0":5}}', None, 50.0, None),
        ("5", 100, 50.0, None),
        (None, None, 50.0, None),
    ],
)
def test_the_time_to_catch_up(
    reached: str | None, behind: int | None, rate: float, seconds: float | None
) -> None:
    assert catch_up_seconds(reached, behind, rate) == seconds


def test_the_age_of_a_position() -> None:
    """The source gets ten records per 1000 ms; the query processes four of them."""
    seen = SeenOffsets()
    ages = [seen.age_ms(1000 * n, str(4 * n + 4), str(10 * n + 4)) for n in range(9)]
    # Processed are 4, 8, 12, 16, 20, ...; the source had 4, 14, 24, 34, ... at 0, 1000, 2000, ...
    assert ages == [0, 1000, 2000, 2000, 3000, 3000, 4000, 5000, 5000]


def test_a_backlog_from_before_the_run_has_no_known_age() -> None:
    seen = SeenOffsets()
    ages = [seen.age_ms(1000 * n, str(10 * n), "25") for n in range(5)]
    assert ages == [None, None, None, 0, 0]


def test_an_unknown_lag_has_no_age() -> None:
    seen = SeenOffsets()
    assert seen.age_ms(0, None, "5") is None
    assert seen.age_ms(1000, "5", None) is None
    assert seen.age_ms(2000, "5", "5") == 0


def test_every_partition_has_to_be_reached() -> None:
    seen = SeenOffsets()
    assert seen.age_ms(0, '{"t":{"0":1,"1":1}}', '{"t":{"0":1,"1":1}}') == 0
    assert seen.age_ms(1000, '{"t":{"0":9,"1":1}}', '{"t":{"0":9,"1":9}}') == 1000
    assert seen.age_ms(2000, '{"t":{"0":9,"1":8}}', '{"t":{"0":9,"1":9}}') == 2000
    assert seen.age_ms(3000, '{"t":{"0":9,"1":9}}', '{"t":{"0":9,"1":10}}') == 1000


def test_a_long_backlog_is_bounded_and_its_age_not_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of four new offsets is processed per record, so that most times are kept for long."""
    monkeypatch.setattr(lag, "_MOST_TIMES", 50)
    seen = SeenOffsets()
    for n in range(300):
        age = seen.age_ms(n, str(n // 4), str(n))
        assert age is not None
        exact = n - n // 4
        assert exact <= age <= exact + 64
    assert len(seen._seen) <= 51
