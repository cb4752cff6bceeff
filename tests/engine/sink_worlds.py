"""Worlds with many sinks, and what happened in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from penstock.engine.named_sinks import NamedSink
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import (
    SinkFailedError,
    StreamFailedError,
)
from tests.engine.world import PATIENCE, RecordingFaults, World
from tests.memory_world.files import MemoryFiles


def world_of(*sinks: NamedSink | str, files: MemoryFiles | None = None, rows: int = 2) -> World:
    """A process with these sinks, and one source with so many rows."""
    world = World(files=files or MemoryFiles())
    world.add_stream("a", range(rows))
    world.plan.many = [NamedSink(sink) if isinstance(sink, str) else sink for sink in sinks]
    return world


def run(world: World, faults: RecordingFaults | None = None) -> World:
    query = world.query(AvailableNowTrigger(), faults=faults or RecordingFaults())
    query.start()
    query.await_termination(PATIENCE)
    return world


def fails(world: World, kind: type[BaseException], faults: RecordingFaults | None = None) -> str:
    """Run a query that fails; returns the message of the cause."""
    with pytest.raises(StreamFailedError) as caught:
        run(world, faults)
    assert isinstance(caught.value.__cause__, kind)
    return str(caught.value.__cause__)


def failing(*names: str) -> Callable[[str], None]:
    def write(name: str) -> None:
        if name in names:
            raise OSError(f"{name} is down")

    return write


def crash(*sinks: NamedSink | str, down: Sequence[str], rows: int = 2) -> MemoryFiles:
    """The files after a first run in which some sinks have failed in batch 0."""
    world = world_of(*sinks, rows=rows)
    world.plan.on_write = failing(*down)
    fails(world, SinkFailedError)
    assert isinstance(world.files, MemoryFiles)
    return world.files


def calls_of(world: World) -> list[str]:
    """What happened to batches: computed, written, released."""
    return [call for call in world.calls if "plan." in call or ".write" in call]


def entries(world: World, sink: str) -> list[int]:
    return world.checkpoint.sink_log(sink).list_batches()
