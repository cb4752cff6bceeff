"""The sites at which faults are injected, and the faults that are possible at each.

The sites are the engine's fault points and, besides, every single call to a source, to the plan or
to a file: a fault point is passed once for all sources, a call is made for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.faults import FaultPoint
from tests.simulation.schedule import FaultKind

LATEST_OFFSET = "call_latest_offset"
GET_BATCH = "call_get_batch"
COMMIT = "call_commit"
PREPARE = "call_prepare"
SINK_MIDWAY = "sink_midway"
COMPUTE_MIDWAY = "compute_midway"
PROGRESS_REPORT = "progress_report"
TRIAL = "trial"
COPY = "copy"

_PROCESS = (FaultKind.RAISE, FaultKind.KILL)
_CALL = (*_PROCESS, FaultKind.HANG)
_LOSS = (FaultKind.GONE, FaultKind.EMPTIED, FaultKind.FOREIGN, FaultKind.OLDER)
_POINT = (*_CALL, FaultKind.STOP, FaultKind.STOP_GRACEFULLY)
_CREATE = (
    FaultKind.EIO,
    FaultKind.EIO_AFTER,
    FaultKind.ENOSPC,
    FaultKind.TORN,
    FaultKind.EMPTY,
    FaultKind.TORN_TEMPORARY,
    FaultKind.RIVAL,
    FaultKind.REPEATED,
    FaultKind.RIVAL_UNANSWERED,
    FaultKind.STORM,
    FaultKind.STORM_AFTER,
    FaultKind.KILL_AFTER,
)
_READ = (FaultKind.EIO, FaultKind.KILL)
_DELETE = (*_READ, FaultKind.EIO_AFTER)
_LIST = (*_READ, FaultKind.STALE)

_BEFORE_THE_QUERY_EXISTS = (FaultPoint.BEFORE_METADATA, FaultPoint.AFTER_METADATA)
_WHILE_THE_QUERY_RUNS = (
    FaultPoint.AFTER_START_OFFSETS,
    FaultPoint.BEFORE_LATEST_OFFSET,
    FaultPoint.BEFORE_OFFSET_LOG,
    FaultPoint.AFTER_OFFSET_LOG,
    FaultPoint.BEFORE_COMMIT_LOG,
    FaultPoint.AFTER_COMMIT_LOG,
)

KINDS_AT: Mapping[str, tuple[FaultKind, ...]] = {
    **{point.value: _POINT for point in FaultPoint},
    **{point.value: (*_POINT, *_LOSS) for point in _WHILE_THE_QUERY_RUNS},
    **{point.value: _PROCESS for point in _BEFORE_THE_QUERY_EXISTS},
    # A run that has not read the checkpoint yet cannot detect that it is an older copy.
    FaultPoint.BEFORE_METADATA.value: (*_PROCESS, FaultKind.OLDER),
    FaultPoint.AFTER_SOURCES.value: (*_POINT, *_LOSS[:-1]),
    **dict.fromkeys((LATEST_OFFSET, GET_BATCH, COMMIT, PREPARE), _CALL),
    PROGRESS_REPORT: (FaultKind.KILL,),
    SINK_MIDWAY: (*_CALL, *_LOSS),
    "create_metadata": _CREATE,
    **{f"create_{log}": (*_CREATE, *_LOSS[:2]) for log in ("offsets", "commits")},
    **{f"read_{what}": _READ for what in ("metadata", "offsets", "commits")},
    **{f"head_{what}": _READ for what in ("metadata", "offsets", "commits")},
    **{f"list_{what}": _LIST for what in ("offsets", "commits", "state")},
    **{f"delete_{what}": _DELETE for what in ("offsets", "commits")},
    # Only queries with named sinks pass these.
    COMPUTE_MIDWAY: (*_CALL, *_LOSS),
    **{f"create_{what}": _CREATE for what in ("sinks", "sink-names")},
    **{f"{call}_{what}": _READ for call in ("read", "list") for what in ("sinks", "sink-names")},
    "delete_sinks": _DELETE,
    # Only queries with a quarantine pass these.
    FaultPoint.BEFORE_QUARANTINE_RECORD.value: (*_POINT, *_LOSS),
    **dict.fromkeys((TRIAL, COPY), _CALL),
    "create_quarantine": _CREATE,
    "create_failures": tuple(kind for kind in _CREATE if not kind.value.startswith("rival")),
    **{f"read_{what}": _READ for what in ("quarantine", "failures")},
    **{f"list_{what}": _LIST for what in ("quarantine", "failures")},
    "delete_failures": _DELETE,
}

SWALLOWED_AT = frozenset(
    {FaultPoint.BEFORE_STOP_SOURCES.value, FaultPoint.AFTER_STOP_SOURCES.value}
)
"""Sites at which an error does not make the query fail, since it is ending."""

OF_TRIALS = frozenset({TRIAL, GET_BATCH, LATEST_OFFSET})
"""Sites at which an error may be that of a trial, which does not make the query fail."""

OF_SINKS = frozenset(
    {
        FaultPoint.BEFORE_NAMED_SINK.value,
        SINK_MIDWAY,
        FaultPoint.BEFORE_SINK_ENTRY.value,
        "create_sinks",
        FaultPoint.AFTER_SINK_ENTRY.value,
    }
)
"""Sites that a batch passes once for each of many sinks."""
