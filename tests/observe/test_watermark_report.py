"""The watermark report: which input holds the watermark back."""

from __future__ import annotations

from penstock.engine.watermark import WatermarkOperator
from penstock.observe.watermark_report import WatermarkReport, make_report, report_watermark

CLICKS = WatermarkOperator("a", "clicked_at", 60_000, ("Kafka[clicks]",))
VIEWS = WatermarkOperator("b", "seen_at", 90_000, ("Kafka[views]",))
MINUTE = 60_000


def report(a: int | None, b: int | None, policy: str = "min") -> WatermarkReport:
    chosen = (min if policy == "min" else max)(a or 0, b or 0)
    return make_report(policy, chosen, [CLICKS, VIEWS], {"a": a, "b": b})


def blocker(of: WatermarkReport) -> str | None:
    return of.blocker.operator_id if of.blocker else None


def test_the_input_with_the_smallest_watermark_blocks_under_min() -> None:
    assert blocker(report(10 * MINUTE, 5 * MINUTE)) == "b"


def test_an_input_without_events_blocks_under_min() -> None:
    slow = report(10 * MINUTE, None)
    assert blocker(slow) == "b"
    assert str(slow) == (
        "Watermark not set yet (no event so far), the min of 2:\n"
        "  clicked_at of Kafka[clicks]: at 1970-01-01T00:10:00.000Z, delay 1 min\n"
        "  seen_at of Kafka[views]: no event seen in this run, delay 90 s"
        "  <- holds the watermark back"
    )


def test_no_input_blocks_when_all_watermarks_are_equal() -> None:
    assert blocker(report(5 * MINUTE, 5 * MINUTE)) is None


def test_under_max_the_largest_watermark_decides_and_no_input_blocks() -> None:
    fast = report(10 * MINUTE, None, "max")
    assert blocker(fast) is None
    assert [entry.is_decisive for entry in fast.inputs] == [True, False]
    assert "decides" in str(fast)


def test_under_max_inputs_without_events_block() -> None:
    assert blocker(report(None, None, "max")) == "a"


def test_a_single_input_blocks_only_while_it_has_no_events() -> None:
    assert blocker(make_report("min", 0, [CLICKS], {"a": None})) == "a"
    assert blocker(make_report("min", 7, [CLICKS], {"a": 7})) is None


def test_the_report_of_a_query_without_watermark() -> None:
    assert "no watermark" in str(report_watermark(None))
    assert report_watermark(None).blocker is None
