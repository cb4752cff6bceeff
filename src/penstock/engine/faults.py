"""The boundaries of the protocol, by name, so that a test can strike at each of them.

A running query passes every point through `FaultInjector.reach`. The one it has by default does
nothing. What a fault may do at a point is anything a machine may do there: raise, hang, or end
the process.
"""

from __future__ import annotations

from enum import Enum


class FaultPoint(str, Enum):
    """A place between two steps of a batch, in the order in which a batch passes them."""

    BEFORE_METADATA = "before_metadata"
    AFTER_METADATA = "after_metadata"
    BEFORE_SOURCES = "before_sources"
    AFTER_SOURCES = "after_sources"
    BEFORE_START_OFFSETS = "before_start_offsets"
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
    BEFORE_GET_BATCH = "before_get_batch"
    AFTER_GET_BATCH = "after_get_batch"
    BEFORE_PLANNING = "before_planning"
    AFTER_PLANNING = "after_planning"
    BEFORE_SINK = "before_sink"
    AFTER_SINK = "after_sink"
    BEFORE_COMMIT_LOG = "before_commit_log"
    AFTER_COMMIT_LOG = "after_commit_log"
    BEFORE_STOP_SOURCES = "before_stop_sources"
    AFTER_STOP_SOURCES = "after_stop_sources"


class FaultInjector:
    """Passed at every fault point. This one lets everything pass."""

    def reach(self, point: FaultPoint, batch_id: int) -> None:
        """Called by the query's thread when it is at a point of a batch."""


NO_FAULTS = FaultInjector()
