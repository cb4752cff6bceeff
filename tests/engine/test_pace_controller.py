"""The controller of the size of batches, on models of what batches cost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.engine.pace_controller import HELD_WITHIN, MOST_GROWTH, PaceController

TARGET = 10_000.0

Cost = Callable[[int, int], float]
"""The duration of a batch, from its number and its size."""


def durations(cost: Cost, batches: int, *, first: int = 1000) -> list[float]:
    """The durations of a number of batches that the controller sizes."""
    controller = PaceController(TARGET)
    size, taken = first, []
    for number in range(batches):
        taken.append(cost(number, size))
        size = max(round(size * controller.observe(size, taken[-1])), 1)
    return taken


def share_within(taken: list[float], share: float = 0.25) -> float:
    return sum(abs(one - TARGET) <= share * TARGET for one in taken) / len(taken)


def changing(fixed: float, cost: float, factor: float, at: int) -> Cost:
    """A fixed cost and a cost per row that is multiplied by a factor at some batch."""
    return lambda number, size: fixed + size * cost * (factor if number >= at else 1)


@pytest.mark.parametrize("factor", [10, 0.1])
@pytest.mark.parametrize("fixed", [0.0, 500.0, 2_000.0, 5_000.0])
def test_batches_are_near_the_target_though_the_cost_changes_tenfold(
    fixed: float, factor: float
) -> None:
    taken = durations(changing(fixed, 0.05, factor, at=60), 120)
    assert share_within(taken[10:]) >= 0.9
    assert share_within(taken[10:60]) == 1
    assert share_within(taken[70:]) == 1


@settings(deadline=None)
@given(
    fixed=st.floats(0, 0.5),
    wanted=st.floats(50, 50_000_000),
    factor=st.sampled_from([0.1, 10.0]),
    seed=st.integers(),
)
@example(fixed=0.0, wanted=50.0, factor=10.0, seed=132507800)  # 5 rows: 4 are too few
def test_this_holds_for_every_cost_and_with_noise(
    fixed: float, wanted: float, factor: float, seed: int
) -> None:
    """`wanted` is the number of rows of a batch of the target duration, before the change."""
    noise = random.Random(seed)
    model = changing(fixed * TARGET, (1 - fixed) * TARGET / wanted, factor, at=60)
    taken = durations(lambda n, size: model(n, size) * noise.uniform(0.92, 1.08), 120)
    assert share_within(taken[10:]) >= 0.9


def test_a_slow_batch_is_followed_by_a_small_one_at_once() -> None:
    controller = PaceController(TARGET)
    assert controller.observe(1000, 100_000) == pytest.approx(0.1)


def test_a_batch_grows_at_most_by_a_factor() -> None:
    controller = PaceController(TARGET)
    assert controller.observe(1000, 0) == MOST_GROWTH
    assert controller.observe(4000, 1) == MOST_GROWTH


@pytest.mark.parametrize("deviation", [-HELD_WITHIN, 0, HELD_WITHIN])
def test_a_batch_near_the_target_is_repeated(deviation: float) -> None:
    assert PaceController(TARGET).observe(1000, TARGET * (1 + deviation)) == 1


def test_the_fixed_part_is_estimated_from_batches_of_different_size() -> None:
    controller = PaceController(TARGET)
    for size in (1000, 2000, 4000, 8000, 1000, 8000):
        controller.observe(size, 2_000 + size * 0.1)
    assert controller.fixed_ms == pytest.approx(2_000, rel=0.05)


def test_batches_of_unknown_size_are_scaled_by_their_duration() -> None:
    controller = PaceController(TARGET)
    assert controller.observe(None, 20_000) == pytest.approx(0.5)
    assert controller.observe(None, 5_000) == pytest.approx(2)
    assert controller.fixed_ms == 0


def test_a_fixed_part_above_the_target_does_not_end_in_batches_of_one_row() -> None:
    controller = PaceController(TARGET)
    size = 1000.0
    for _ in range(100):
        size = max(size * controller.observe(size, 12_000 + size * 0.01), 1)
    assert size * 0.01 > 100


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1e12), st.floats(0, 1e9)), max_size=50))
def test_every_factor_is_positive_and_bounded(batches: list[tuple[float, float]]) -> None:
    controller = PaceController(TARGET)
    for work, duration in batches:
        factor = controller.observe(work, duration)
        assert 0 < factor <= MOST_GROWTH
        assert 0 <= controller.fixed_ms <= max(duration, 0)
        if duration > (1 + HELD_WITHIN) * TARGET:
            assert factor < 1 or controller.fixed_ms > 0.8 * TARGET
