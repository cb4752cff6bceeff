"""V1 and V2 sources of numbers, and a query plan that keeps the rows of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from penstock.checkpoint import CommitMetadata
from penstock.engine.batch_parts import FilesPart, Pieces
from penstock.engine.data_stream import DataStream, MicroBatchStream, Source, SourceFile
from penstock.engine.named_sinks import NamedSink, SinkWriter
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.progress import ExecutionStats
from penstock.engine.read_limit import ReadLimit
from penstock.engine.seam import BatchExecution, BatchRequest, PutAside, QueryPlan, Trials
from penstock.engine.watermark import EventTimeStats
from tests.memory_world.plan import MemoryBatch
from tests.memory_world.sources import Abilities, RowStream


class _Numbers(RowStream):
    """What both kinds of source share: a list of numbers whose offset is the last index."""

    origin = -1

    def __init__(
        self, name: str, rows: Iterable[int], calls: list[str], abilities: Abilities | None = None
    ) -> None:
        super().__init__(abilities or Abilities())
        self.name = name
        self.rows = list(rows)
        self.calls = calls
        self.on_stop: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        return f"Numbers[{self.name}]"

    def row_count(self) -> int:
        return len(self.rows)

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        self.calls.append(f"{self.name}.get_batch {start} {end}")
        first, last = self.rows_between(start, end)
        return self.rows[first:last]

    def commit(self, end: Offset) -> None:
        self.calls.append(f"{self.name}.commit {end}")

    def stop(self) -> None:
        self.calls.append(f"{self.name}.stop")
        self.on_stop()


class NumberSource(_Numbers, Source):
    """A V1 source without optional features. It has no offset until it has a row."""

    def __init__(self, name: str, rows: Iterable[int], calls: list[str]) -> None:
        super().__init__(name, rows, calls, Abilities(reports_latest=False))

    def get_offset(self) -> Offset | None:
        self.calls.append(f"{self.name}.get_offset")
        return LongOffset(len(self.rows) - 1) if self.rows else None


class NumberStream(_Numbers, MicroBatchStream):
    """A V2 stream. Its initial offset is -1."""

    latest_seen: Offset | None = None

    def initial_offset(self) -> Offset:
        return LongOffset(self.origin)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        self.calls.append(f"{self.name}.latest_offset {start} {limit}")
        return LongOffset(self.end_within(start, limit))

    def prepare_for_trigger_available_now(self) -> None:
        self.calls.append(f"{self.name}.prepare_for_trigger_available_now")
        super().prepare_for_trigger_available_now()

    def set_latest_seen_offset(self, offset: Offset) -> None:
        self.latest_seen = offset

    def metrics(self, latest_consumed: Offset | None) -> Mapping[str, str]:
        return {"consumed": str(latest_consumed)}


class FileNumbers(NumberSource):
    """A source that reads each number from a file of its own."""

    def files_between(self, start: Offset | None, end: Offset) -> Sequence[SourceFile] | None:
        first, last = self.rows_between(start, end)
        return [SourceFile(f"/in/{n}", self.rows[n]) for n in range(first, last)]

    def get_files(self, files: Sequence[SourceFile]) -> object:
        self.calls.append(f"{self.name}.get_files {' '.join(file.path for file in files)}")
        return [file.timestamp for file in files]

    def size_of(self, file: SourceFile) -> int | None:
        return 7


def rows_of(request: BatchRequest) -> list[int]:
    """The rows of a batch, of all sources."""
    rows: list[int] = []
    for data in request.data.values():
        for piece in data.data if isinstance(data, Pieces) else (data,):
            rows.extend(cast("list[int]", piece))
    return rows


class NumberBatch(MemoryBatch):
    """A batch that writes its rows to the plan's `output`."""

    def __init__(self, plan: NumberPlan, request: BatchRequest) -> None:
        super().__init__(request, has_state=plan.has_state)
        self._plan = plan

    def run(self) -> int | None:
        self._plan.calls.append(f"plan.run {self.request.batch_id}")
        self._plan.on_run()
        rows = rows_of(self.request)
        self._plan.refuse_poison(rows)
        self._plan.output[self.request.batch_id] = rows
        return len(rows) if self._plan.counts_rows else None

    @property
    def has_other_effects(self) -> bool:
        return self._plan.has_state

    def run_for_sinks(self, deliver: Callable[[SinkWriter], None], *, is_wanted: bool) -> int:
        plan, batch_id = self._plan, self.request.batch_id
        plan.calls.append(f"plan.compute {batch_id}")
        rows = rows_of(self.request)
        plan.refuse_poison(rows)

        def write(name: str) -> None:
            assert is_wanted
            plan.calls.append(f"{name}.write {batch_id}")
            plan.on_write(name)
            plan.written.setdefault(name, {})[batch_id] = rows

        try:
            deliver(write)
        finally:
            plan.calls.append(f"plan.release {batch_id}")
        return len(rows)

    def event_time_stats(self) -> Sequence[EventTimeStats]:
        return self._plan.stats_of(self.request)

    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        rows = {s: len(d) for s, d in self.request.data.items() if isinstance(d, list)}
        return replace(self._plan.figures, input_rows=rows)


class NumberTrials(Trials):
    """Trials of a NumberPlan."""

    def __init__(self, plan: NumberPlan) -> None:
        self._plan = plan

    def run(self, request: BatchRequest) -> None:
        rows = rows_of(request)
        self._plan.calls.append(f"plan.try {request.batch_id} {rows}")
        self._plan.on_trial(rows)
        self._plan.refuse_poison(rows)


class NumberPlan(QueryPlan):
    """A query that writes all rows of all sources to `output`, by batch."""

    def __init__(self, sources: Sequence[DataStream], calls: list[str]) -> None:
        self._sources = sources
        self.calls = calls
        self.output: dict[int, list[int]] = {}
        self.requests: list[BatchRequest] = []
        self.operators: Sequence[str] = ()
        self.names: Sequence[str] | None = None
        self.names_new = True
        self.refuses_positions = False
        self.figures = ExecutionStats()
        self.counts_rows = True
        self.has_state = False
        self.resumed_after: CommitMetadata | None = None
        self.on_run: Callable[[], None] = lambda: None
        self.many: Sequence[NamedSink] = ()
        self.written: dict[str, dict[int, list[int]]] = {}
        self.on_write: Callable[[str], None] = lambda name: None
        self.poison: set[int] = set()
        self.copies: dict[tuple[int, int], tuple[str, list[int]]] = {}
        self.on_trial: Callable[[list[int]], None] = lambda rows: None
        self.on_copy: Callable[[], None] = lambda: None
        self.stats_of: Callable[[BatchRequest], Sequence[EventTimeStats]] = lambda request: ()

    @property
    def sources(self) -> Sequence[DataStream]:
        return self._sources

    @property
    def source_ids(self) -> Sequence[str] | None:
        return super().source_ids if self.names is None else self.names

    @property
    def names_new_log(self) -> bool:
        return super().names_new_log and self.names_new

    @property
    def refuses_log_by_position(self) -> bool:
        return self.refuses_positions

    @property
    def sink_description(self) -> str:
        return "NumberSink"

    @property
    def named_sinks(self) -> Sequence[NamedSink]:
        return self.many

    @property
    def watermark_operators(self) -> Sequence[str]:
        return self.operators

    def prepare(self, request: BatchRequest) -> BatchExecution:
        self.calls.append(f"plan.prepare {request.batch_id}")
        self.requests.append(request)
        return NumberBatch(self, request)

    def refuse_poison(self, rows: Iterable[int]) -> None:
        """Raise an error if a row is poison."""
        bad = sorted(self.poison.intersection(rows))
        if bad:
            raise ValueError(f"cannot process {bad}")

    @contextmanager
    def trials(self) -> Iterator[Trials]:
        self.calls.append("plan.trials")
        yield NumberTrials(self)
        self.calls.append("plan.trials end")

    def copy_aside(self, aside: PutAside) -> None:
        batch_id = aside.request.batch_id
        self.calls.append(f"plan.copy_aside {batch_id}")
        self.on_copy()
        for number, part in enumerate(aside.parts):
            if isinstance(part, FilesPart):
                rows = [file.timestamp for file in part.files]
            else:
                rows = cast("list[int]", part.read())
            self.copies[batch_id, number] = aside.record.path, rows

    def resume_after_commit(self, commit: CommitMetadata) -> None:
        self.resumed_after = commit

    def __str__(self) -> str:
        return f"NumberPlan over {', '.join(map(str, self._sources))}"
