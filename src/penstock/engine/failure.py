"""What is said of a query that died."""

from __future__ import annotations

from penstock.engine.batch_context import BatchContext
from penstock.engine.error_text import shown
from penstock.engine.seam import QueryIdentity, QueryPlan
from penstock.errors import StreamFailedError


def stream_failure(
    identity: QueryIdentity,
    state: str,
    context: BatchContext | None,
    plan: QueryPlan | None,
    cause: BaseException,
    reason: str,
) -> StreamFailedError:
    """The error that stands for a query's death, with the batch it died in.

    `plan` is None where the query died before it had one. `reason` is the text of the cause.
    """
    current = context or BatchContext()
    sources = plan.sources if plan else ()
    failure = StreamFailedError(
        f"Query [id = {identity.id}, runId = {identity.run_id}] terminated with exception: "
        f"{reason}",
        {"id": identity.id, "runId": identity.run_id, "message": reason},
        _debug_string(identity, state, current, plan),
        str(current.start_offsets.to_offset_seq(sources, None)),
        str(current.end_offsets.to_offset_seq(sources, None)),
    )
    failure.__cause__ = cause
    return failure


def _debug_string(
    identity: QueryIdentity, state: str, context: BatchContext, plan: QueryPlan | None
) -> str:
    text = (
        f"=== Streaming Query ===\nIdentifier: {identity}\n"
        f"Current Committed Offsets: {context.start_offsets}\n"
        f"Current Available Offsets: {context.end_offsets}\n\n"
        f"Current State: {state}\nThread State: RUNNABLE"
    )
    return text if plan is None else f"{text}\n\nLogical Plan:\n{shown(plan)}"
