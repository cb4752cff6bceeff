"""Simulated sources: numbered rows, deterministic event times, and a strict memory.

The offset of a source is the number of rows before it. A source that was told that rows are
processed has let go of them; to ask for them again is what a real source would answer with data
loss.
"""

from __future__ import annotations

from penstock.engine.data_stream import DataStream, MicroBatchStream, Source
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.read_limit import ALL_AVAILABLE, ReadLimit, ReadMaxRows
from tests.simulation.life import Life
from tests.simulation.schedule import SourceKind
from tests.simulation.sites import COMMIT, GET_BATCH, LATEST_OFFSET
from tests.simulation.world import World

RowRange = tuple[int, int]
"""The rows from the first number up to, not including, the second."""


class _SimulatedStream(DataStream):
    """What both kinds share."""

    def __init__(self, world: World, life: Life, number: int) -> None:
        self._world = world
        self._life = life
        self.number = number
        self._kind = world.shape.sources[number].kind
        self._has_limit = self._kind.has_limit
        self._limit = ReadMaxRows(world.shape.sources[number].max_rows)
        self._target: int | None = None

    def __str__(self) -> str:
        return f"{self._kind.value}[{self.number}]"

    @property
    def supports_admission_control(self) -> bool:
        return self._has_limit

    @property
    def supports_trigger_available_now(self) -> bool:
        return self._kind.stands_still

    def deserialize_offset(self, json: str) -> Offset:
        return LongOffset(int(json))

    def default_read_limit(self) -> ReadLimit:
        return self._limit if self._has_limit else ALL_AVAILABLE

    def prepare_for_trigger_available_now(self) -> None:
        self._target = self._world.rows[self.number]

    def report_latest_offset(self) -> Offset | None:
        return LongOffset(self._world.rows[self.number])

    def get_batch(self, start: Offset | None, end: Offset) -> RowRange:
        self._life.cross(GET_BATCH)
        first = 0 if start is None else int(start.json)
        last = int(end.json)
        self._world.checker.rows_asked_for(self._life, self.number, first, last)
        return first, last

    def commit(self, end: Offset) -> None:
        self._life.cross(COMMIT)
        upto = int(end.json)
        self._world.checker.rows_let_go(self._life, self.number, upto)
        self._world.let_go[self.number] = max(self._world.let_go[self.number], upto)

    def stop(self) -> None:
        """Holds nothing."""

    def _latest(self, start: Offset | None, limit: ReadLimit) -> int:
        self._life.cross(LATEST_OFFSET)
        available = self._world.rows[self.number]
        if self._target is not None:
            available = min(available, self._target)
        if self._has_limit and isinstance(limit, ReadMaxRows):
            first = 0 if start is None else int(start.json)
            # A planned batch may have been beyond the target; offsets never go back.
            return max(first, min(available, first + limit.max_rows))
        return available


class SimulatedSource(_SimulatedStream, Source):
    """A V1 source. Without rows it has no offset."""

    def get_offset(self) -> Offset | None:
        return self.latest_offset(None, ALL_AVAILABLE)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        latest = self._latest(start, limit)
        return LongOffset(latest) if latest else None


class SimulatedMicroBatchStream(_SimulatedStream, MicroBatchStream):
    """A V2 source."""

    @property
    def accepts_latest_seen_offset(self) -> bool:
        return self._kind is SourceKind.V2_NOW

    def set_latest_seen_offset(self, offset: Offset) -> None:
        self._world.checker.latest_seen(self._life, self.number, int(offset.json))

    def initial_offset(self) -> Offset:
        return LongOffset(0)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        return LongOffset(self._latest(start, limit))


def make_source(
    world: World, life: Life, number: int
) -> SimulatedSource | SimulatedMicroBatchStream:
    if world.shape.sources[number].kind.is_v1:
        return SimulatedSource(world, life, number)
    return SimulatedMicroBatchStream(world, life, number)
