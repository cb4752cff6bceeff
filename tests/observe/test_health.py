"""The health check: which queries are unhealthy."""

from __future__ import annotations

from penstock.observe.health import check_health
from tests.snapshots import NOW, snapshot


def reasons(**changes: object) -> list[str]:
    return [query.reason for query in check_health([snapshot(**changes)], 30).unhealthy]


def test_a_waiting_query_is_healthy_however_long_it_waits() -> None:
    assert reasons(last_progress_at=NOW - 100_000) == []


def test_a_failed_query_is_unhealthy() -> None:
    health = check_health([snapshot(), snapshot(id="other", condition="failed", error="boom")])
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


def test_a_terminated_query_is_healthy() -> None:
    assert reasons(condition="ended", trigger_age=500.0) == []


def test_a_query_stalls_after_stall_seconds_in_one_trigger() -> None:
    assert reasons(trigger_age=30.0) == []
    assert reasons(trigger_age=31.0, status="Processing new data") == [
        "no progress: in the same trigger for 31 s (Processing new data)"
    ]


def test_a_query_stalls_after_stall_seconds_of_starting() -> None:
    assert reasons(condition="starting", started_at=NOW - 10) == []
    [reason] = reasons(condition="starting", started_at=NOW - 40)
    assert reason.startswith("no progress: starting for 40 s")
