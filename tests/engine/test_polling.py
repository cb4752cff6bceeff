"""The waits of a query without new data."""

from __future__ import annotations

import threading

import pytest

from penstock.engine.polling import Polling, WhenIdle


class Waits(threading.Event):
    """Records the timeouts of waits, without waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture
def waits() -> Waits:
    return Waits()


def test_without_back_off_every_wait_is_the_polling_delay(waits: Waits) -> None:
    polling = Polling(10, waits)
    for _ in range(500):
        polling.wait(0.001)
    assert set(waits.seconds) == {0.01}


def test_waits_grow_to_ten_delays_and_to_a_tenth_of_the_idle_time(waits: Waits) -> None:
    polling = Polling(10, waits, WhenIdle.BACK_OFF)
    for _ in range(500):
        polling.wait(0.001)
    assert waits.seconds[:10] == [0.01] * 10
    assert waits.seconds == sorted(waits.seconds)
    assert max(waits.seconds) == 0.1
    silence = 0.0
    for wait in waits.seconds:
        assert wait <= max(0.01, silence * 0.1)
        silence += wait


def test_data_makes_the_next_wait_a_short_one(waits: Waits) -> None:
    polling = Polling(10, waits, WhenIdle.BACK_OFF)
    for _ in range(200):
        polling.wait(0.001)
    polling.reset()
    polling.wait(0.001)
    assert waits.seconds[-2:] == [0.1, 0.01]


def test_a_nudge_ends_the_wait_and_resets_the_idle_time(waits: Waits) -> None:
    polling = Polling(10, waits, WhenIdle.BACK_OFF)
    for _ in range(200):
        polling.wait(0.001)
    waits.set()
    polling.wait(0.001)
    assert not waits.is_set()
    polling.wait(0.001)
    assert waits.seconds[-2:] == [0.1, 0.01]


def test_a_delay_of_zero_never_waits(waits: Waits) -> None:
    polling = Polling(0, waits, WhenIdle.BACK_OFF)
    for _ in range(50):
        polling.wait(0.001)
    assert set(waits.seconds) == {0.0}


def test_an_expensive_poll_is_repeated_less_often(waits: Waits) -> None:
    polling = Polling(10, waits, WhenIdle.BACK_OFF)
    for took, longest in ((0.001, 0.1), (0.004, 0.4), (0.5, 1.0)):
        for _ in range(500):
            polling.wait(took)
        assert waits.seconds[-1] == longest


def test_without_back_off_the_duration_of_a_poll_does_not_matter(waits: Waits) -> None:
    Polling(10, waits).wait(0.5)
    Polling(0, waits, WhenIdle.BACK_OFF).wait(0.5)
    assert waits.seconds == [0.01, 0.0]
