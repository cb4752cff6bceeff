"""A batch without Spark."""

from __future__ import annotations

from penstock.checkpoint import CommitMetadata, OffsetSeqMetadata
from penstock.engine.seam import BatchExecution, BatchRequest


class MemoryBatch(BatchExecution):
    """A batch of a query that may have state.

    A query with state wants a batch without data whenever the watermark has advanced since its last
    batch, as Spark's operators do that have state to emit or to remove.
    """

    def __init__(self, request: BatchRequest, *, has_state: bool) -> None:
        self.request = request
        self._has_state = has_state

    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        return CommitMetadata(next_watermark_ms)

    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        moved = metadata.batch_watermark_ms > self.request.metadata.batch_watermark_ms
        return self._has_state and moved

    def explain(self, *, extended: bool) -> str:
        return f"batch {self.request.batch_id}, extended={extended}"
