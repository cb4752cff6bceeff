"""What counts as not being well."""

from __future__ import annotations

from penstock.observe.health import judge
from tests.snapshots import NOW, snapshot


def reasons(**changes: object) -> list[str]:
    return [trouble.reason for trouble in judge([snapshot(**changes)], 30).troubles]


def test_a_running_query_is_well_however_long_it_waits() -> None:
    assert reasons(last_progress_at=NOW - 100_000) == []


def test_a_failed_query_is_not() -> None:
    health = judge([snapshot(), snapshot(id="other", condition="failed", error="boom")])
    assert not health.is_healthy
    assert health.to_dict() == {
        "healthy": False,
        "queries": 2,
        "unhealthy": [
            {
                "query": "clicks",
                "id": "other",
                "runId": snapshot().run_id,
                "reason": "failed: boom",
            }
        ],
    }


def test_a_query_that_ended_is_well() -> None:
    assert reasons(condition="ended", trigger_age=500.0) == []


def test_a_query_is_stuck_after_so_long_in_one_trigger() -> None:
    assert reasons(trigger_age=30.0) == []
    assert reasons(trigger_age=31.0, status="Processing new data") == [
        "no progress: in the same trigger for 31 s (Processing new data)"
    ]


def test_a_query_that_does_not_get_started_is_stuck() -> None:
    assert reasons(condition="starting", started_at=NOW - 10) == []
    [reason] = reasons(condition="starting", started_at=NOW - 40)
    assert reason.startswith("no progress: starting for 40 s")
