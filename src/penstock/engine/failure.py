"""Tells a failed query from a stopped one, and builds the error of the failed one."""

from __future__ import annotations

import threading
from functools import partial

from penstock.engine.batch_context import BatchContext
from penstock.engine.causes import with_causes
from penstock.engine.error_text import or_else, shown
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.stream_progress import StreamProgress
from penstock.errors import StoppedError, StreamFailedError


def is_of_stop(terminating: threading.Event, session: StreamSession, error: BaseException) -> bool:
    """Whether an error, or one of its causes, is the result of stopping the query.

    Only while it is being stopped: a call that times out by itself raises the same errors as one
    that is interrupted. `terminating` is set before any call is.
    """
    if not terminating.is_set():
        return False
    if any(isinstance(cause, StoppedError) for cause in with_causes(error)):
        return True
    return or_else(partial(session.is_interruption, error), otherwise=False)


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

    It is built from what can be shown of the query: after the end of the JVM that may be little.
    `reason` is the text of the cause, `checkpoint` the root of the checkpoint. `context` is None
    if the query failed before it looked for a batch, and `plan` is None if it failed before it had
    a plan. The error has a batch id only if that batch was planned.
    """
    current = context or BatchContext()
    failure = StreamFailedError(
        f"Query [id = {identity.id}, runId = {identity.run_id}] terminated with exception: "
        f"{reason}",
        {"id": identity.id, "runId": identity.run_id, "message": reason},
        _debug_string(identity, state, current, plan),
        or_else(partial(_offsets_text, current.start_offsets, plan), "-"),
        or_else(partial(_offsets_text, current.end_offsets, plan), "-"),
    )
    failure.checkpoint = checkpoint
    failure.batch_id = current.batch_id if current.is_current_batch_constructed else None
    failure.__cause__ = cause
    return failure


def _offsets_text(progress: StreamProgress, plan: QueryPlan | None) -> str:
    return str(progress.to_offset_seq(plan.sources if plan else (), None))


def _debug_string(
    identity: QueryIdentity, state: str, context: BatchContext, plan: QueryPlan | None
) -> str:
    text = (
        f"=== Streaming Query ===\nIdentifier: {identity}\n"
        f"Current Committed Offsets: {shown(context.start_offsets)}\n"
        f"Current Available Offsets: {shown(context.end_offsets)}\n\n"
        f"Current State: {state}\nThread State: RUNNABLE"
    )
    return text if plan is None else f"{text}\n\nLogical Plan:\n{shown(plan)}"
