"""The first step of a run: reads or creates the query id of its checkpoint."""

from __future__ import annotations

import uuid

from penstock.checkpoint import CheckpointDirectory
from penstock.engine.faults import NO_FAULTS, FaultInjector, FaultPoint
from penstock.engine.seam import QueryIdentity
from penstock.errors import CheckpointError


def open_checkpoint(
    checkpoint: CheckpointDirectory,
    name: str | None = None,
    faults: FaultInjector = NO_FAULTS,
    *,
    verify: bool = True,
) -> QueryIdentity:
    """The identity of a new run on a checkpoint. Writes the `metadata` file if it does not exist.

    Raises CheckpointError, with its `checkpoint` set, if the file cannot be read, or if it does not
    exist but there are log entries; the latter only with `verify`.
    """
    faults.reach(FaultPoint.BEFORE_METADATA, -1)
    try:
        query_id = checkpoint.read_or_create_metadata(verify=verify).id
    except CheckpointError as exc:
        exc.checkpoint = checkpoint.root
        raise
    faults.reach(FaultPoint.AFTER_METADATA, -1)
    return QueryIdentity(query_id, str(uuid.uuid4()), name)
