"""The state of one batch. The state of a whole run is in `runtime`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.checkpoint import OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.named_sinks import SinkOutcome
from penstock.engine.seam import BatchExecution
from penstock.engine.source_pace import SourcePace
from penstock.engine.stream_progress import StreamProgress


@dataclass
class BatchContext:
    """The batch that is being constructed or run. Only the query's thread changes it.

    A batch is the data after `start_offsets` (the reference's committed offsets) up to
    `end_offsets` (its available offsets). `last_execution` is the execution of the previous batch;
    None for the first batch of a run. `sink_outcomes` is filled if the query has many sinks, `pace`
    if it is paced and this run has constructed the batch. `left_out` is the number of parts of each
    source that are put aside. `is_running` holds until the batch is committed or given up.
    """

    batch_id: int = -1
    start_offsets: StreamProgress = field(default_factory=StreamProgress)
    end_offsets: StreamProgress = field(default_factory=StreamProgress)
    latest_offsets: StreamProgress = field(default_factory=StreamProgress)
    metadata: OffsetSeqMetadata = field(default_factory=OffsetSeqMetadata)
    is_current_batch_constructed: bool = False
    is_running: bool = False
    last_execution: BatchExecution | None = None
    execution: BatchExecution | None = None
    output_rows: int | None = None
    sink_outcomes: tuple[SinkOutcome, ...] = ()
    pace: Mapping[DataStream, SourcePace] = field(default_factory=dict)
    left_out: Mapping[DataStream, int] = field(default_factory=dict)

    @property
    def is_new_data_available(self) -> bool:
        """Whether the end offset of some source differs from its start offset."""
        return any(
            self.start_offsets.get(source) != available
            for source, available in self.end_offsets.items()
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Context manager: the steps of the batch up to its commit."""
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False

    def next(self) -> BatchContext:
        """The context of the batch after this one: it starts where this one ended."""
        return BatchContext(
            batch_id=self.batch_id + 1,
            start_offsets=self.end_offsets,
            end_offsets=self.end_offsets,
            latest_offsets=self.latest_offsets,
            metadata=self.metadata,
            last_execution=self.execution,
        )
