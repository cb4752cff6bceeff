"""What lasts as long as a run of a query: the parts that every step of a batch works with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.checkpoint import CheckpointDirectory
from penstock.engine.clock import Clock
from penstock.engine.data_stream import UniqueSource
from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.stream_progress import StreamProgress
from penstock.engine.watermark import WatermarkTracker


@dataclass
class QueryRuntime:
    """The parts of a running query. `progress_lock` guards what waiters look at:
    `no_new_data` and `committed_offsets`. `source_ids` are the names that the offset log has for
    the sources, None where it goes by position."""

    identity: QueryIdentity
    session: StreamSession
    checkpoint: CheckpointDirectory
    clock: Clock
    reporter: ProgressReporter
    plan: QueryPlan
    unique_sources: list[UniqueSource]
    watermark: WatermarkTracker
    faults: FaultInjector = NO_FAULTS
    progress_lock: threading.Condition = field(default_factory=threading.Condition)
    source_ids: Sequence[str] | None = None
    no_new_data: bool = False
    committed_offsets: StreamProgress = field(default_factory=StreamProgress)

    def signal_progress(self) -> None:
        """Wake whoever waits for the query to get on."""
        with self.progress_lock:
            self.progress_lock.notify_all()
