"""A checkpoint with a quarantine, without Spark, for the tests of the quarantine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.checkpoint.quarantine_log import BatchFailure, QuarantineRecord
from penstock.engine.named_sinks import NamedSink
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import StreamFailedError
from tests.engine.world import PATIENCE, ManualClock, RecordingFaults, World
from tests.memory_world.files import MemoryFiles
from tests.memory_world.sources import Abilities

RULES = QuarantineRules("/aside", after=1)
LIMITED = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(8))
ROWS = range(8)


class Place:
    """A checkpoint that several processes use one after the other."""

    def __init__(
        self, poison: Sequence[int] = (5,), rows: Sequence[int] = ROWS, *, in_files: bool = False
    ) -> None:
        self.files = MemoryFiles()
        self.clock = ManualClock()
        self.poison = set(poison)
        self.rows = rows
        self.in_files = in_files
        self.abilities = LIMITED
        self.many: Sequence[NamedSink] = ()
        self.world = self.process()
        self.output: dict[int, list[int]] = {}

    def process(self) -> World:
        self.world = World(files=self.files, clock=self.clock)
        if self.in_files:
            self.world.add_files("a", self.rows)
        else:
            self.world.add_stream("a", self.rows, self.abilities)
        self.world.plan.poison = self.poison
        self.world.plan.many = self.many
        return self.world

    def run(
        self,
        rules: QuarantineRules | None = RULES,
        faults: RecordingFaults | None = None,
        world: World | None = None,
    ) -> StreamExecution:
        """Run the query in a process of its own to the end of the data."""
        world = world or self.process()
        query = world.query(
            AvailableNowTrigger(), faults=faults or RecordingFaults(), quarantine=rules
        )
        query.start()
        try:
            query.await_termination(PATIENCE)
        finally:
            self.output.update(world.plan.output)
        return query

    def fails(
        self,
        kind: type[BaseException] = ValueError,
        rules: QuarantineRules | None = RULES,
        faults: RecordingFaults | None = None,
        world: World | None = None,
    ) -> str:
        with pytest.raises(StreamFailedError) as caught:
            self.run(rules, faults, world)
        assert isinstance(caught.value.__cause__, kind)
        return str(caught.value.__cause__)

    def record(self, batch_id: int = 0) -> QuarantineRecord | None:
        return self.process().checkpoint.quarantine.get(batch_id)

    def failures(self) -> list[BatchFailure]:
        log = self.process().checkpoint.failures
        found = [log.get(number) for number in log.list_batches()]
        return [failure for failure in found if failure is not None]

    def planned_at(self, batch_id: int = 0) -> int:
        entry = self.process().checkpoint.offset_log.get(batch_id)
        assert entry is not None
        assert entry.metadata is not None
        return entry.metadata.batch_timestamp_ms
