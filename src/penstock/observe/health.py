"""The health check over the queries of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.observe.snapshot import QuerySnapshot

DEFAULT_STALL_SECONDS = 600.0
"""A query that has been in one trigger for longer than this counts as stalled."""


@dataclass(frozen=True)
class UnhealthyQuery:
    """A query that has failed or stalled, and the reason."""

    query: str
    query_id: str
    run_id: str
    reason: str


@dataclass(frozen=True)
class Health:
    """The result of the health check over `queries` queries."""

    unhealthy: tuple[UnhealthyQuery, ...]
    queries: int

    @property
    def is_healthy(self) -> bool:
        return not self.unhealthy

    def to_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.is_healthy,
            "queries": self.queries,
            "unhealthy": [
                {"query": one.query, "id": one.query_id, "runId": one.run_id, "reason": one.reason}
                for one in self.unhealthy
            ],
        }


def check_health(
    snapshots: Sequence[QuerySnapshot], stall_seconds: float = DEFAULT_STALL_SECONDS
) -> Health:
    """Find the queries whose latest run failed or that have stalled.

    A query has stalled if it has been starting, or in the same trigger, for longer than
    `stall_seconds`. A query that waits for data or for its next trigger is healthy however long it
    waits, and so is one that terminated without an error.
    """
    unhealthy = []
    for snapshot in snapshots:
        reason = _reason(snapshot, stall_seconds)
        if reason is not None:
            unhealthy.append(UnhealthyQuery(snapshot.label, snapshot.id, snapshot.run_id, reason))
    return Health(tuple(unhealthy), len(snapshots))


def _reason(snapshot: QuerySnapshot, stall_seconds: float) -> str | None:
    """Why a query is unhealthy; None if it is healthy."""
    if snapshot.condition == "failed":
        return f"failed: {snapshot.error}"
    if snapshot.condition == "restarting":
        return f"failed, restart pending: {snapshot.error}"
    if snapshot.is_over:
        return None
    if snapshot.condition == "starting":
        busy = snapshot.taken_at - snapshot.started_at
    else:
        busy = snapshot.trigger_age or 0.0
    if busy <= stall_seconds:
        return None
    doing = "starting" if snapshot.condition == "starting" else "in the same trigger"
    return f"no progress: {doing} for {busy:.0f} s ({snapshot.status})"
