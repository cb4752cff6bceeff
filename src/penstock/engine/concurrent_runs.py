"""The error of a run that finds an entry of another run on its checkpoint."""

from __future__ import annotations

from penstock.engine.runtime import QueryRuntime
from penstock.errors import ConcurrentUpdateError, Condition


def concurrent_update(runtime: QueryRuntime, batch_id: int) -> ConcurrentUpdateError:
    """The error if the entry of a batch already exists because another run has written it."""
    return ConcurrentUpdateError(
        f"Concurrent update to the log. Multiple streaming jobs detected for {batch_id}.\n"
        "Please make sure only one streaming job runs on a specific checkpoint location at a "
        "time.",
        Condition("CONCURRENT_STREAM_LOG_UPDATE", "40000", {"batchId": str(batch_id)}),
        f"The checkpoint is {runtime.checkpoint.root}; nothing of it was overwritten.",
    )
