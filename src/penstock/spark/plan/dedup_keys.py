"""Keeps the key order of `dropDuplicates` that the state of a checkpoint was written with.

Spark 4.3 orders the key columns as in the stream; earlier Sparks use the order of a hash set. State
stores keys by position, so a checkpoint keeps the order of its first batch.
"""

from __future__ import annotations

from typing import Any

from penstock.checkpoint import CheckpointDirectory, OffsetSeqMetadata
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.session.stream_session import SparkStreamSession

DEDUPLICATION = ("Deduplicate", "DeduplicateWithinWatermark")
"""The operators of `dropDuplicates`."""


def with_key_order(
    session: SparkStreamSession, analyzed: Any, checkpoint: CheckpointDirectory
) -> Any:
    """The plan with the key order that the offset log records; the session's if it has none.

    Returns the plan unchanged if this Spark has only one key order.
    """
    if not session.jvm.line.has("ResolveDeduplicate"):
        return analyzed
    latest = checkpoint.offset_log.get_latest()
    in_order = _is_in_order(session, latest[1].metadata if latest else None)
    resolver = session.jsession.sessionState().analyzer().resolver()
    return _rebuild(session.jvm, analyzed, in_order, resolver)


def _is_in_order(session: SparkStreamSession, recorded: OffsetSeqMetadata | None) -> bool:
    entry = session.jvm.module("SQLConf").DROP_DUPLICATES_DETERMINISTIC_KEY_ORDER()
    if recorded is not None:
        module = session.jvm.module("OffsetSeqMetadata")
        found = session.jvm.from_option(module.readValueOpt(module.apply(recorded.json), entry))
        if found is not None:
            return str(found) == "true"
    return session.get_conf(entry.key()) == "true"


def _rebuild(jvm: Jvm, plan: Any, in_order: bool, resolver: Any) -> Any:
    children = jvm.to_list(plan.children())
    if children:
        rebuilt = [_rebuild(jvm, child, in_order, resolver) for child in children]
        plan = plan.withNewChildren(jvm.seq(rebuilt))
    if not any(jvm.is_instance(plan, kind) for kind in DEDUPLICATION):
        return plan
    spec = jvm.from_option(plan.dedupSpec())
    if spec is None:
        return plan
    keys = jvm.module("ResolveDeduplicate").computeKeys(plan.child(), spec, in_order, resolver)
    return plan.copy(keys, plan.child(), plan.dedupSpec())
