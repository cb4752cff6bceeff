"""Named points between the steps of the protocol at which a test can inject a fault.

A running query calls `FaultInjector.reach` at every point. By default that does nothing. An
injector may do anything that can happen to a process there: raise, block, or end the process.
"""

from __future__ import annotations

from enum import Enum


class FaultPoint(str, Enum):
    """A point between two steps, in the order in which a query reaches them."""

    BEFORE_METADATA = "before_metadata"
    AFTER_METADATA = "after_metadata"
    BEFORE_SOURCES = "before_sources"
    AFTER_SOURCES = "after_sources"
    BEFORE_START_OFFSETS = "before_start_offsets"
    BEFORE_SINK_NAMES = "before_sink_names"
    AFTER_SINK_NAMES = "after_sink_names"
    AFTER_START_OFFSETS = "after_start_offsets"
    BEFORE_LATEST_OFFSET = "before_latest_offset"
    AFTER_LATEST_OFFSET = "after_latest_offset"
    BEFORE_OFFSET_LOG = "before_offset_log"
    AFTER_OFFSET_LOG = "after_offset_log"
    BEFORE_SOURCE_COMMIT = "before_source_commit"
    AFTER_SOURCE_COMMIT = "after_source_commit"
    BEFORE_PURGE = "before_purge"
    BETWEEN_PURGES = "between_purges"
    AFTER_PURGE = "after_purge"
    BEFORE_TRIALS = "before_trials"
    BEFORE_QUARANTINE_RECORD = "before_quarantine_record"
    AFTER_QUARANTINE_RECORD = "after_quarantine_record"
    AFTER_QUARANTINE_COPY = "after_quarantine_copy"
    BEFORE_GET_BATCH = "before_get_batch"
    AFTER_GET_BATCH = "after_get_batch"
    BEFORE_PLANNING = "before_planning"
    AFTER_PLANNING = "after_planning"
    BEFORE_SINK = "before_sink"
    AFTER_COMPUTING = "after_computing"
    BEFORE_NAMED_SINK = "before_named_sink"
    BEFORE_SINK_ENTRY = "before_sink_entry"
    AFTER_SINK_ENTRY = "after_sink_entry"
    AFTER_SINK = "after_sink"
    BEFORE_COMMIT_LOG = "before_commit_log"
    AFTER_COMMIT_LOG = "after_commit_log"
    BEFORE_FAILURE_ENTRY = "before_failure_entry"
    AFTER_FAILURE_ENTRY = "after_failure_entry"
    BEFORE_STOP_SOURCES = "before_stop_sources"
    AFTER_STOP_SOURCES = "after_stop_sources"


OF_EACH_SINK = (
    FaultPoint.BEFORE_NAMED_SINK,
    FaultPoint.BEFORE_SINK_ENTRY,
    FaultPoint.AFTER_SINK_ENTRY,
)
"""The points that a query with many sinks reaches once for each of them in every batch."""

OF_MANY_SINKS = frozenset(
    {
        FaultPoint.BEFORE_SINK_NAMES,
        FaultPoint.AFTER_SINK_NAMES,
        FaultPoint.AFTER_COMPUTING,
        *OF_EACH_SINK,
    }
)
"""The points that only a query with many sinks reaches."""

OF_QUARANTINE = frozenset(
    {
        FaultPoint.BEFORE_TRIALS,
        FaultPoint.BEFORE_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_RECORD,
        FaultPoint.AFTER_QUARANTINE_COPY,
        FaultPoint.BEFORE_FAILURE_ENTRY,
        FaultPoint.AFTER_FAILURE_ENTRY,
    }
)
"""The points that only a query with a quarantine reaches, when a batch fails or has failed."""

OF_EVERY_QUERY = tuple(p for p in FaultPoint if p not in OF_MANY_SINKS | OF_QUARANTINE)
"""The points that every query reaches."""


class FaultInjector:
    """Called at every fault point. This implementation does nothing."""

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        """Called at a point; `batch_id` is -1 outside of batches.

        The thread is that of the query or, for the points of a parallel sink, that of the sink.
        """


NO_FAULTS = FaultInjector()
