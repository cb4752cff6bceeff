"""Tells a failed query from a stopped one, and builds the error of the failed one."""

from __future__ import annotations

from penstock.engine.batch_context import BatchContext
from penstock.engine.error_text import shown
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.errors import StoppedError, StreamFailedError


def is_of_stop(session: StreamSession, error: BaseException) -> bool:
    """Whether an error, or one of its causes, is the result of stopping the query."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, StoppedError):
            return True
        seen = seen.__cause__ or seen.__context__
    return session.is_interruption(error)


def stream_failure(
    identity: QueryIdentity,
    state: str,
    context: BatchContext | None,
    plan: QueryPlan | None,
    cause: BaseException,
    reason: str,
    checkpoint: str,
) -> StreamFailedError:
    """The error that `await_termination` raises, with `cause` as its cause.

    `reason` is the text of the cause, `checkpoint` the root of the checkpoint. `context` is None
    if the query failed before it looked for a batch, and `plan` is None if it failed before it had
    a plan. The error has a batch id only if that batch was planned.
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
    failure.checkpoint = checkpoint
    failure.batch_id = current.batch_id if current.is_current_batch_constructed else None
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
