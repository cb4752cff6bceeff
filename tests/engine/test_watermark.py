"""Computing the watermark of a query from those of its operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.watermark import EventTimeStats, WatermarkTracker
from penstock.errors import ExecutionError


def saw(operator: str, max_ms: int, delay_ms: int = 10, count: int = 1) -> EventTimeStats:
    return EventTimeStats(operator, delay_ms, count, max_ms)


def test_a_watermark_starts_at_zero() -> None:
    tracker = WatermarkTracker("min", ["a"])
    assert tracker.current_watermark == 0
    assert tracker.operator_watermarks == {"a": None}


def test_a_watermark_is_the_latest_event_less_the_delay(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tracker = WatermarkTracker("min", ["a"])
    tracker.update_watermark([saw("a", 100)])
    assert tracker.current_watermark == 90
    assert "Updating event-time watermark from 0 to 90 ms" in caplog.text


def test_a_watermark_never_decreases(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    tracker = WatermarkTracker("min", ["a"])
    tracker.update_watermark([saw("a", 100)])
    tracker.update_watermark([saw("a", 50)])
    assert tracker.current_watermark == 90
    assert tracker.operator_watermarks == {"a": 90}
    assert "Event time watermark didn't move: 90 < 90" in caplog.text


@pytest.mark.parametrize(("policy", "expected"), [("min", 40), ("max", 90), ("MAX", 90)])
def test_the_policy_chooses_among_operators(policy: str, expected: int) -> None:
    tracker = WatermarkTracker(policy, ["a", "b"])
    tracker.update_watermark([saw("a", 100), saw("b", 50)])
    assert tracker.current_watermark == expected
    assert tracker.operator_watermarks == {"a": 90, "b": 40}


@pytest.mark.parametrize(("policy", "expected"), [("min", 0), ("max", 90)])
def test_an_operator_that_has_seen_nothing_counts_as_zero(policy: str, expected: int) -> None:
    tracker = WatermarkTracker(policy, ["a", "b"])
    tracker.update_watermark([saw("a", 100), saw("b", 0, count=0)])
    assert tracker.current_watermark == expected
    assert tracker.operator_watermarks["b"] is None


def test_a_batch_without_watermark_operators_changes_nothing() -> None:
    tracker = WatermarkTracker("min", [])
    tracker.set_watermark(70)
    tracker.update_watermark([])
    assert tracker.current_watermark == 70


def test_a_restored_watermark_holds_until_it_is_passed() -> None:
    tracker = WatermarkTracker("max", ["a"])
    tracker.set_watermark(70)
    tracker.update_watermark([saw("a", 60)])
    assert tracker.current_watermark == 70
    tracker.update_watermark([saw("a", 100)])
    assert tracker.current_watermark == 90


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ExecutionError, match="Could not recognize watermark policy 'median'"):
        WatermarkTracker("median", [])


def test_an_unknown_operator_is_refused() -> None:
    tracker = WatermarkTracker("min", ["a", "b"])
    with pytest.raises(ExecutionError, match=r"Unknown watermark node ID: c, known IDs: \[a,b\]"):
        tracker.update_watermark([saw("c", 1)])


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1000), st.integers(0, 1)), max_size=3)
)


@given(st.sampled_from(["min", "max"]), BATCHES)
def test_the_watermark_is_the_policy_of_the_best_of_each_operator(
    policy: str, batches: list[list[tuple[str, int, int]]]
) -> None:
    tracker = WatermarkTracker(policy, ["a", "b"])
    best = {"a": 0, "b": 0}
    last = 0
    for batch in batches:
        tracker.update_watermark([saw(op, time, 0, count) for op, time, count in batch])
        for operator, time, count in batch:
            best[operator] = max(best[operator], time * count)
        expected = (min if policy == "min" else max)(best.values())
        assert tracker.current_watermark == expected >= last
        last = expected
