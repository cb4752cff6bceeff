"""The simulated query, which writes its rows to the checker's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from penstock.engine.batch_parts import OffsetsPart, Pieces
from penstock.engine.data_stream import DataStream
from penstock.engine.named_sinks import NamedSink, SinkWriter
from penstock.engine.progress import ExecutionStats
from penstock.engine.seam import BatchExecution, BatchRequest, PutAside, QueryPlan, Trials
from penstock.engine.watermark import EventTimeStats
from tests.memory_world.plan import MemoryBatch
from tests.memory_world.sources import RowRange
from tests.simulation.event_time import DELAY_MS, latest_event_ms
from tests.simulation.ledger import BatchRun, RowsLeft
from tests.simulation.life import Life
from tests.simulation.sites import COMPUTE_MIDWAY, COPY, PREPARE, SINK_MIDWAY, TRIAL
from tests.simulation.sources import make_source
from tests.simulation.world import World


class PoisonError(Exception):
    """A batch has a row that the query cannot process."""


class SimulatedPlan(QueryPlan):
    """All rows of all sources into one sink; stateful if the shape has a watermark.

    A stateful query has one watermark operator per source.
    """

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life
        self.distinct = [make_source(world, life, n) for n in range(len(world.shape.sources))]
        self._sources = [self.distinct[number] for number in world.shape.plan_order]
        self._operators = [f"watermark-{n}" for n in range(len(self.distinct))]

    @property
    def sources(self) -> Sequence[DataStream]:
        return self._sources

    @property
    def sink_description(self) -> str:
        return "simulated sink"

    @property
    def named_sinks(self) -> Sequence[NamedSink]:
        names = self._world.shape.sink_names
        return [NamedSink(name, parallel=n % 2 == 1) for n, name in enumerate(names)]

    def latest_batch_of_sink(self) -> int | None:
        return max(self._world.checker.ledger.written, default=None)

    @property
    def watermark_operators(self) -> Sequence[str]:
        return self._operators if self._world.shape.is_stateful else ()

    def prepare(self, request: BatchRequest) -> BatchExecution:
        self._life.cross(PREPARE)
        return SimulatedBatch(self._world, self._life, request, self.rows_of(request))

    def rows_of(self, request: BatchRequest) -> RowsLeft:
        """The rows of each source in a batch."""
        data = [request.data.get(source, Pieces(())) for source in self.distinct]
        pieces = [rows.data if isinstance(rows, Pieces) else (rows,) for rows in data]
        return tuple(tuple(cast("RowRange", piece) for piece in rows) for rows in pieces)

    @contextmanager
    def trials(self) -> Iterator[Trials]:
        yield SimulatedTrials(self._world, self._life, self)

    def copy_aside(self, aside: PutAside) -> None:
        self._life.cross(COPY)
        rows: set[tuple[int, int]] = set()
        for part in aside.parts:
            assert isinstance(part, OffsetsPart)
            number = self.distinct.index(part.source)  # type: ignore[arg-type]
            first, last = cast("RowRange", part.read())
            rows.update((number, row) for row in range(first, last))
        self._world.checker.ledger.copied[aside.request.batch_id] = frozenset(rows)

    def __str__(self) -> str:
        return "SimulatedPlan"


def refuse_poison(world: World, rows: RowsLeft) -> None:
    """Raise PoisonError if the query cannot process these rows."""
    for source, row in () if world.query_is_fixed else world.shape.poison:
        if any(first <= row < last for first, last in rows[source]):
            raise PoisonError(f"row {row} of source {source}")


class SimulatedTrials(Trials):
    """Trials of the simulated query."""

    def __init__(self, world: World, life: Life, plan: SimulatedPlan) -> None:
        self._world = world
        self._life = life
        self._plan = plan

    def run(self, request: BatchRequest) -> None:
        self._life.cross(TRIAL)
        refuse_poison(self._world, self._plan.rows_of(request))


class SimulatedBatch(MemoryBatch):
    """One batch of the simulated query."""

    def __init__(
        self,
        world: World,
        life: Life,
        request: BatchRequest,
        rows: RowsLeft,
    ) -> None:
        super().__init__(request, has_state=world.shape.is_stateful)
        self._world = world
        self._life = life
        self._rows = rows

    def run(self) -> int | None:
        batch = self._run()
        self._world.checker.batch_runs(self._life, batch)
        self._world.let_rows_arrive()
        self._life.cross(SINK_MIDWAY)
        self._world.checker.batch_written(self._life, batch)
        return sum(last - first for pieces in self._rows for first, last in pieces)

    @property
    def has_other_effects(self) -> bool:
        return self._world.shape.is_stateful

    def run_for_sinks(self, deliver: Callable[[SinkWriter], None], *, is_wanted: bool) -> int:
        batch, checker = self._run(), self._world.checker
        checker.batch_runs(self._life, batch)
        self._world.let_rows_arrive()
        self._life.cross(COMPUTE_MIDWAY)
        checker.batch_computed(self._life, batch)

        def write(name: str) -> None:
            checker.sink_called(self._life, name, batch)
            self._life.cross(SINK_MIDWAY)
            checker.sink_written(name, batch)

        deliver(write)
        return 0

    def _run(self) -> BatchRun:
        request = self.request
        refuse_poison(self._world, self._rows)
        return BatchRun(
            request.batch_id,
            self._rows,
            request.metadata.batch_watermark_ms,
            request.metadata.batch_timestamp_ms,
            request.previous_metadata,
        )

    def event_time_stats(self) -> Sequence[EventTimeStats]:
        if not self._world.shape.is_stateful:
            return ()
        return [
            EventTimeStats(
                f"watermark-{n}",
                DELAY_MS,
                sum(last - first for first, last in pieces),
                max((latest_event_ms(n, *rows) for rows in pieces), default=0),
            )
            for n, pieces in enumerate(self._rows)
        ]

    def statistics(self, *, has_new_data: bool) -> ExecutionStats:
        return ExecutionStats()
