"""Without faults, the simulated files keep the contract of `CheckpointFiles`."""

from __future__ import annotations

import pytest

from tests.simulation import Schedule
from tests.simulation.files import SimulatedFiles
from tests.simulation.life import Killed, Life
from tests.simulation.schedule import Run
from tests.simulation.world import World


@pytest.fixture
def world() -> World:
    return World(
        Schedule.parse("sources=v2:1 plan=stateless retain=9 flags= arrivals=1 runs=processing")
    )


def _files(world: World) -> tuple[SimulatedFiles, Life]:
    life = Life(0, Run())
    world.checker.run_starts(life)
    files = SimulatedFiles(world, life)
    files.make_directory("")
    return files, life


def test_a_file_is_written_if_absent_and_read_back(world: World) -> None:
    files, _ = _files(world)
    assert files.create_if_absent("metadata", b"first")
    assert not files.create_if_absent("metadata", b"second")
    assert files.read("metadata") == b"first"
    assert files.exists("metadata")


def test_missing_files(world: World) -> None:
    files, _ = _files(world)
    with pytest.raises(FileNotFoundError):
        files.read("offsets/0")
    assert not files.exists("offsets/0")
    assert files.list_names("offsets") == []
    assert files.is_empty("state")
    files.delete("offsets/0")


def test_files_outlive_their_process_which_has_no_further_effect(world: World) -> None:
    files, life = _files(world)
    files.create_if_absent("metadata", b"x")
    life.die()
    with pytest.raises(Killed):
        files.create_if_absent("offsets/0", b"y")
    with pytest.raises(Killed):
        files.delete("metadata")
    assert _files(world)[0].read("metadata") == b"x"
