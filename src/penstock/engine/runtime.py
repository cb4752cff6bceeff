"""The objects of one run of a query that every step of a batch uses."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.checkpoint import CheckpointDirectory
from penstock.engine.batch_context import BatchContext
from penstock.engine.clock import Clock
from penstock.engine.data_stream import UniqueSource
from penstock.engine.failure import is_of_stop
from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.hooks import BatchInfo, HookPoint, Hooks
from penstock.engine.pacing import Pacing
from penstock.engine.progress_reporter import ProgressReporter
from penstock.engine.seam import QueryIdentity, QueryPlan, StreamSession
from penstock.engine.triggers import Admission
from penstock.engine.watermark import WatermarkTracker
from penstock.errors import StoppedError

if TYPE_CHECKING:
    from penstock.engine.quarantine import Quarantine
    from penstock.engine.sink_delivery import SinkDelivery


@dataclass
class QueryRuntime:
    """The parts of a running query.

    `progress_lock` guards `no_new_data`, which `process_all_available` waits for. `source_ids` are
    the names of the sources in the offset log; None if the log identifies them by position. `sinks`
    is None if the query has one sink, `pacing` if the sizes of its batches are not controlled.
    `quarantine` also exists if the query does not have one. `terminating` is set by a stop that is
    not graceful.
    """

    identity: QueryIdentity
    session: StreamSession
    checkpoint: CheckpointDirectory
    clock: Clock
    reporter: ProgressReporter
    plan: QueryPlan
    unique_sources: list[UniqueSource]
    watermark: WatermarkTracker
    faults: FaultInjector = NO_FAULTS
    hooks: Hooks = field(default_factory=Hooks)
    progress_lock: threading.Condition = field(default_factory=threading.Condition)
    source_ids: Sequence[str] | None = None
    no_new_data: bool = False
    sinks: SinkDelivery | None = None
    admission: Admission | None = None
    pacing: Pacing | None = None
    quarantine: Quarantine | None = None
    terminating: threading.Event = field(default_factory=threading.Event)

    def is_of_stop(self, error: BaseException) -> bool:
        """Whether an error, or one of its causes, is the result of stopping the query."""
        return is_of_stop(self.terminating, self.session, error)

    def require_not_stopped(self, step: str) -> None:
        """Raise StoppedError, which names the next step, if the query is being stopped."""
        if self.terminating.is_set():
            raise StoppedError(f"stopped before {step}")

    def call_hooks(self, point: HookPoint, context: BatchContext) -> None:
        """Call the user's hooks for a point of a batch."""
        self.hooks.call(point, lambda: self._batch_info(context))

    def _batch_info(self, context: BatchContext) -> BatchInfo:
        return BatchInfo(
            query_id=self.identity.id,
            run_id=self.identity.run_id,
            query_name=self.identity.name,
            batch_id=context.batch_id,
            start_offsets={str(s): offset.json for s, offset in context.start_offsets.items()},
            end_offsets={str(s): offset.json for s, offset in context.end_offsets.items()},
            watermark_ms=context.metadata.batch_watermark_ms,
            timestamp_ms=context.metadata.batch_timestamp_ms,
        )

    def signal_progress(self) -> None:
        """Wake the threads in `process_all_available`."""
        with self.progress_lock:
            self.progress_lock.notify_all()
