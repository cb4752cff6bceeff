"""Simulated sources of numbered rows.

The offset of a source is the number of rows before it. A source discards rows when they are
committed; if they are requested again, a real source would have lost them.
"""

from __future__ import annotations

from penstock.engine.data_stream import MicroBatchStream, Source
from penstock.engine.offsets import LongOffset, Offset
from penstock.engine.read_limit import ALL_AVAILABLE, ReadLimit, ReadMaxRows
from tests.memory_world.sources import Abilities, RowRange, RowStream
from tests.simulation.life import Life
from tests.simulation.schedule import SourceKind
from tests.simulation.sites import COMMIT, GET_BATCH, LATEST_OFFSET
from tests.simulation.world import World


class _SimulatedStream(RowStream):
    """What both kinds share. A fault can be injected at every call, and the checker sees it."""

    origin = 0
    reports_backlog = True

    def __init__(self, world: World, life: Life, number: int) -> None:
        shape = world.shape.sources[number]
        has_limit = shape.kind.has_limit
        abilities = Abilities(
            admission_control=has_limit,
            available_now=shape.kind.supports_available_now,
            latest_seen=shape.kind is SourceKind.V2_NOW,
            limit=ReadMaxRows(shape.max_rows) if has_limit else ALL_AVAILABLE,
        )
        super().__init__(abilities)
        self._world = world
        self._life = life
        self._kind = shape.kind
        self.number = number

    def __str__(self) -> str:
        return f"{self._kind.value}[{self.number}]"

    def row_count(self) -> int:
        return self._world.rows[self.number]

    def get_batch(self, start: Offset | None, end: Offset) -> RowRange:
        self._life.cross(GET_BATCH)
        first, last = self.rows_between(start, end)
        self._world.checker.rows_requested(self._life, self.number, first, last)
        return first, last

    def commit(self, end: Offset) -> None:
        self._life.cross(COMMIT)
        upto = int(end.json)
        self._world.checker.rows_committed(self._life, self.number, upto)
        self._world.discarded[self.number] = max(self._world.discarded[self.number], upto)

    def set_latest_seen_offset(self, offset: Offset) -> None:
        self._world.checker.latest_seen(self._life, self.number, int(offset.json))

    def stop(self) -> None:
        """There is nothing to free."""

    def _latest(self, start: Offset | None, limit: ReadLimit) -> int:
        self._life.cross(LATEST_OFFSET)
        return self.end_within(start, limit)


class SimulatedSource(_SimulatedStream, Source):
    """A V1 source. Without rows it has no offset."""

    def get_offset(self) -> Offset | None:
        return self.latest_offset(None, ALL_AVAILABLE)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        latest = self._latest(start, limit)
        return LongOffset(latest) if latest else None


class SimulatedMicroBatchStream(_SimulatedStream, MicroBatchStream):
    """A V2 source."""

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
