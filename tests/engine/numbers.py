"""Sources of numbers, V1 and V2, and a query plan that keeps their rows by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.checkpoint import CommitMetadata, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream, MicroBatchStream, Source
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.progress import ExecutionStats
from penstock.engine.read_limit import ALL_AVAILABLE, ReadLimit, ReadMaxRows
from penstock.engine.seam import BatchExecution, BatchRequest, QueryPlan
from penstock.engine.watermark import EventTimeStats


class _Numbers:
    """What both kinds of source share: a list of numbers whose offset is the last index."""

    def __init__(self, name: str, rows: Iterable[int], calls: list[str]) -> None:
        self.name = name
        self.rows = list(rows)
        self.calls = calls
        self.on_stop: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        return f"Numbers[{self.name}]"

    def deserialize_offset(self, json: str) -> Offset:
        return LongOffset(int(json))

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        self.calls.append(f"{self.name}.get_batch {start} {end}")
        first = 0 if start is None else LongOffset.of(start).value + 1
        return self.rows[first : LongOffset.of(end).value + 1]

    def commit(self, end: Offset) -> None:
        self.calls.append(f"{self.name}.commit {end}")

    def stop(self) -> None:
        self.calls.append(f"{self.name}.stop")
        self.on_stop()


class NumberSource(_Numbers, Source):
    """A V1 source; it has no offset until it has a row."""

    accepts_latest_seen_offset = False

    def get_offset(self) -> Offset | None:
        self.calls.append(f"{self.name}.get_offset")
        return LongOffset(len(self.rows) - 1) if self.rows else None


@dataclass(frozen=True)
class Abilities:
    """What a V2 stream supports beyond the least, and the limit it was configured with."""

    admission_control: bool = False
    available_now: bool = False
    latest_seen: bool = False
    limit: ReadLimit = ALL_AVAILABLE
    reports_latest: bool = True


class NumberStream(_Numbers, MicroBatchStream):
    """A V2 stream; it begins before its first row, at -1."""

    def __init__(
        self, name: str, rows: Iterable[int], calls: list[str], abilities: Abilities | None = None
    ) -> None:
        super().__init__(name, rows, calls)
        self.abilities = abilities or Abilities()
        self.held_at: int | None = None
        self.latest_seen: Offset | None = None

    @property
    def supports_admission_control(self) -> bool:
        return self.abilities.admission_control

    @property
    def supports_trigger_available_now(self) -> bool:
        return self.abilities.available_now

    @property
    def accepts_latest_seen_offset(self) -> bool:
        return self.abilities.latest_seen

    def default_read_limit(self) -> ReadLimit:
        return self.abilities.limit

    def initial_offset(self) -> Offset:
        return LongOffset(-1)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        self.calls.append(f"{self.name}.latest_offset {start} {limit}")
        end = self._end()
        if start is not None and isinstance(limit, ReadMaxRows):
            end = min(end, LongOffset.of(start).value + limit.max_rows)
        return LongOffset(end)

    def report_latest_offset(self) -> Offset | None:
        return LongOffset(self._end()) if self.abilities.reports_latest else None

    def prepare_for_trigger_available_now(self) -> None:
        self.calls.append(f"{self.name}.prepare_for_trigger_available_now")
        self.held_at = len(self.rows) - 1

    def set_latest_seen_offset(self, offset: Offset) -> None:
        self.latest_seen = offset

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        return {"consumed": str(latest_consumed)}

    def _end(self) -> int:
        return len(self.rows) - 1 if self.held_at is None else self.held_at


class NumberBatch(BatchExecution):
    """A batch that hands its rows to the plan's output."""

    def __init__(self, plan: NumberPlan, request: BatchRequest) -> None:
        self._plan = plan
        self.request = request

    def run(self) -> int | None:
        self._plan.calls.append(f"plan.run {self.request.batch_id}")
        self._plan.on_run()
        rows: list[int] = []
        for data in self.request.data.values():
            assert isinstance(data, list)
            rows.extend(data)
        self._plan.output[self.request.batch_id] = rows
        return len(rows) if self._plan.counts_rows else None

    def event_time_stats(self) -> Sequence[EventTimeStats]:
        return self._plan.stats_of(self.request)

    def commit_metadata(self, next_watermark_ms: int) -> CommitMetadata:
        return CommitMetadata(next_watermark_ms)

    def should_run_another_batch(self, metadata: OffsetSeqMetadata) -> bool:
        """True while the watermark has moved since the batch was decided."""
        return (
            self._plan.has_state
            and metadata.batch_watermark_ms > self.request.metadata.batch_watermark_ms
        )

    def explain(self, *, extended: bool) -> str:
        return f"batch {self.request.batch_id}, extended={extended}"

    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        rows = {s: len(d) for s, d in self.request.data.items() if isinstance(d, list)}
        return replace(self._plan.figures, input_rows=rows)


class NumberPlan(QueryPlan):
    """The query: every row of every source goes to `output`, by batch."""

    def __init__(self, sources: Sequence[DataStream], calls: list[str]) -> None:
        self._sources = sources
        self.calls = calls
        self.output: dict[int, list[int]] = {}
        self.requests: list[BatchRequest] = []
        self.operators: Sequence[str] = ()
        self.names: Sequence[str] | None = None
        self.figures = ExecutionStats()
        self.counts_rows = True
        self.has_state = False
        self.resumed_after: CommitMetadata | None = None
        self.forgotten_before: list[int] = []
        self.on_run: Callable[[], None] = lambda: None
        self.stats_of: Callable[[BatchRequest], Sequence[EventTimeStats]] = lambda request: ()

    @property
    def sources(self) -> Sequence[DataStream]:
        return self._sources

    @property
    def source_ids(self) -> Sequence[str] | None:
        return super().source_ids if self.names is None else self.names

    @property
    def sink_description(self) -> str:
        return "NumberSink"

    @property
    def watermark_operators(self) -> Sequence[str]:
        return self.operators

    def prepare(self, request: BatchRequest) -> BatchExecution:
        self.calls.append(f"plan.prepare {request.batch_id}")
        self.requests.append(request)
        return NumberBatch(self, request)

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        self.resumed_after = commit

    def forget_before(self, batch_id: int) -> None:
        self.forgotten_before.append(batch_id)

    def __str__(self) -> str:
        return f"NumberPlan over {', '.join(map(str, self._sources))}"
