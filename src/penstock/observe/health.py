"""Are the queries of this process well?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.observe.snapshot import QuerySnapshot

DEFAULT_STALL_SECONDS = 600.0
"""After so many seconds in one trigger a query counts as stuck."""


@dataclass(frozen=True)
class Trouble:
    """A query that is not well, and why."""

    query: str
    query_id: str
    run_id: str
    reason: str


@dataclass(frozen=True)
class Health:
    """The verdict on all queries."""

    troubles: tuple[Trouble, ...]
    queries: int

    @property
    def is_healthy(self) -> bool:
        return not self.troubles

    def to_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.is_healthy,
            "queries": self.queries,
            "unhealthy": [
                {"query": t.query, "id": t.query_id, "runId": t.run_id, "reason": t.reason}
                for t in self.troubles
            ],
        }


def judge(
    snapshots: Sequence[QuerySnapshot], stall_seconds: float = DEFAULT_STALL_SECONDS
) -> Health:
    """Who is not well: a query whose latest run failed, or that has stopped making progress.

    That is one that has been in the same trigger, or in starting up, for longer than
    `stall_seconds`. Waiting for data or for the next trigger is no trouble, however long it takes;
    neither is a query that ended well.
    """
    troubles = []
    for snapshot in snapshots:
        reason = _trouble(snapshot, stall_seconds)
        if reason is not None:
            troubles.append(Trouble(snapshot.label, snapshot.id, snapshot.run_id, reason))
    return Health(tuple(troubles), len(snapshots))


def _trouble(snapshot: QuerySnapshot, stall_seconds: float) -> str | None:
    if snapshot.condition == "failed":
        return f"failed: {snapshot.error}"
    if snapshot.condition == "restarting":
        return f"failed, to be started again: {snapshot.error}"
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
