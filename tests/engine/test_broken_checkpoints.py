"""Damaged checkpoints: refused with the file and a remedy, or continued.

A refusal changes nothing in the directory. What Spark does with the same damage is tested in
`tests/spark/test_broken_checkpoints.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint import LocalFiles
from penstock.engine.read_limit import ReadMaxRows
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import AvailableNowTrigger
from penstock.errors import (
    CheckpointError,
    IncompleteLogError,
    MalformedLogError,
    MissingBatchError,
    MissingMetadataError,
    StreamFailedError,
    UnsupportedLogVersionError,
)
from tests.engine.world import PATIENCE, World
from tests.memory_world.sources import Abilities

ONE_A_BATCH = Abilities(admission_control=True, available_now=True, limit=ReadMaxRows(1))


def world_on(root: Path, rows: int) -> World:
    world = World(files=LocalFiles(root))
    world.add_stream("a", range(rows), ONE_A_BATCH)
    return world


def run(world: World) -> StreamExecution:
    """Run a query over all available data. Raises its error if it fails."""
    query = world.query(AvailableNowTrigger())
    query.start()
    assert query.await_termination(PATIENCE)
    return query


@pytest.fixture
def root(checkpoint: Path) -> Path:
    """A checkpoint with four committed batches."""
    run(world_on(checkpoint, 4))
    return checkpoint


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def cause_of(world: World) -> BaseException:
    """The error of a query at its start or in its first trigger."""
    try:
        run(world)
    except StreamFailedError as failure:
        return failure.__cause__ or failure
    except CheckpointError as error:
        return error
    raise AssertionError("the query ran")


REFUSED: dict[str, tuple[str, bytes | None, type[Exception], str]] = {
    "empty offsets": ("offsets/3", b"", IncompleteLogError, "move it away"),
    "truncated offsets": ("offsets/3", b"v1\n", IncompleteLogError, "move it away"),
    "offsets torn in a line": ("offsets/3", b'v1\n{"batchWater', MalformedLogError, "move it away"),
    "garbage for offsets": ("offsets/3", b"\x00\xff\x00", MalformedLogError, "move it away"),
    "offsets of the future": ("offsets/3", b"v9\n{}\n3", UnsupportedLogVersionError, "upgrade"),
    "empty offsets before": ("offsets/2", b"", IncompleteLogError, "Nothing was changed"),
    "no offsets before": ("offsets/2", None, MissingBatchError, "offsets/2 is needed"),
    "empty commit": ("commits/3", b"", IncompleteLogError, "run again as planned"),
    "torn commit": ("commits/3", b'v1\n{"next', MalformedLogError, "move it away"),
    "garbage for a commit": ("commits/3", b"\x89PNG", MalformedLogError, "move it away"),
    "commit of the future": ("commits/3", b"v9\n{}", UnsupportedLogVersionError, "upgrade"),
    "no offsets for a commit": ("offsets/3", None, MissingBatchError, "remove the entries"),
    "empty metadata": ("metadata", b"", MalformedLogError, "Restore it from a backup"),
    "torn metadata": ("metadata", b'{"id":"1234', MalformedLogError, "Restore it from a backup"),
    "garbage for metadata": ("metadata", b"\xff", MalformedLogError, "Restore it from a backup"),
    "no metadata": ("metadata", None, MissingMetadataError, "metadata"),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_damage_is_refused_with_the_file_and_a_remedy_and_nothing_is_changed(
    root: Path, damage: str
) -> None:
    name, data, expected, remedy = REFUSED[damage]
    if data is None:
        (root / name).unlink()
    else:
        (root / name).write_bytes(data)
    before = contents(root)
    world = world_on(root, 6)
    error = cause_of(world)
    assert type(error) is expected
    assert name.split("/")[0] in str(error)
    assert name in str(error) or data is None
    assert remedy in str(error)
    assert contents(root) == before
    assert world.plan.output == {}


def nothing(root: Path) -> None:
    """Does no damage."""


def remove(*names: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for name in names:
            (root / name).unlink()

    return damage


def put(**strangers: bytes) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        for directory in ("offsets", "commits"):
            for name, data in strangers.items():
                (root / directory / name.replace("_", ".")).write_bytes(data)

    return damage


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        (root / name).write_bytes(data)

    return damage


GONE_ON_FROM: dict[str, tuple[Callable[[Path], None], int]] = {
    "no damage": (nothing, 4),
    "old offsets are gone": (remove("offsets/0", "offsets/1"), 4),
    "a commit in the middle is gone": (remove("commits/2"), 4),
    "the last commit is gone": (remove("commits/3"), 3),
    "all commits are gone": (remove(*(f"commits/{n}" for n in range(4))), 3),
    "an old commit is torn": (write("commits/1", b""), 4),
    "old offsets are garbage": (write("offsets/0", b"\xff"), 4),
    "a commit of an old Spark": (write("commits/3", b"v1"), 4),
    "temporary files": (put(_4_a1b2_tmp=b"half", _3_tmp=b"", _4_tmp=b"v1"), 4),
    "checksums": (put(_3_crc=b"stale", _4_crc=b"stale"), 4),
    "strangers": (put(README=b"hello", x4=b"", **{"07": b"v1"}), 4),
}


@pytest.mark.parametrize("damage", GONE_ON_FROM)
def test_files_that_recovery_does_not_need_may_be_missing(root: Path, damage: str) -> None:
    spoil, first_batch = GONE_ON_FROM[damage]
    spoil(root)
    before = contents(root)
    world = world_on(root, 6)
    run(world)
    assert world.plan.output == {n: [n] for n in range(first_batch, 6)}
    after = contents(root)
    stale = {f"{log}/.4.crc" for log in ("offsets", "commits")} if damage == "checksums" else set()
    rerun = {f"commits/{first_batch}"} if first_batch == 3 else set()
    kept = {name: data for name, data in before.items() if name not in stale | rerun}
    assert {name: after.get(name) for name in kept} == kept


# Failing writes.


def failing_writes(number: int) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_full_disk_ends_the_query_and_it_resumes_when_there_is_space(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, log: str
) -> None:
    world = world_on(root, 6)
    with monkeypatch.context() as patch:
        if log == "offsets":
            patch.setattr(os, "write", failing_writes(number))
        else:
            world.plan.on_run = lambda: patch.setattr(os, "write", failing_writes(number))
        error = cause_of(world)
    assert isinstance(error, OSError)
    assert error.errno == number
    assert str(root / log / "4") in str(error)
    assert [name for name in contents(root) if "tmp" in name or name == f"{log}/4"] == []
    again = world_on(root, 6)
    run(again)
    assert again.plan.output == {4: [4], 5: [5]}


def test_an_unwritable_directory_ends_the_query_and_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.open

    def read_only(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return original(path, flags, *args, **kwargs)

    before = contents(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", read_only)
        error = cause_of(world_on(root, 6))
    assert isinstance(error, OSError)
    assert "Read-only file system" in str(error)
    assert str(root / "offsets") in str(error)
    assert contents(root) == before
    again = world_on(root, 6)
    run(again)
    assert again.plan.output == {4: [4], 5: [5]}


WRITES = 1 + 6 * 2
"""The query's id, and for each of six batches its offsets and its commit."""


@pytest.mark.parametrize("last", range(WRITES))
def test_a_disk_may_be_full_after_any_write(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    writes, original = 0, os.write

    def write_or_fail(descriptor: int, data: Any) -> int:
        nonlocal writes
        writes += 1
        if writes > last:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(descriptor, data)

    world = world_on(checkpoint, 6)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_or_fail)
        with pytest.raises((OSError, StreamFailedError), match="No space left on device"):
            run(world)
    goes_on(checkpoint, world.plan.output)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages; skipped if the test may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a file system is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_file_system(tiny_disk: Path) -> None:
    checkpoint, filler = tiny_disk / "checkpoint", tiny_disk / "filler"
    world = world_on(checkpoint, 6)
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)

    def fill_in_batch_3() -> None:
        if len(world.plan.output) == 3:
            with contextlib.suppress(OSError):
                while os.write(descriptor, bytes(512)):
                    pass

    world.plan.on_run = fill_in_batch_3
    with pytest.raises(StreamFailedError, match=r"No space left on device: .*commits/3"):
        run(world)
    os.close(descriptor)
    filler.unlink()
    goes_on(checkpoint, world.plan.output)


def goes_on(checkpoint: Path, output: dict[int, list[int]]) -> None:
    """Restart the query: every row is then in exactly one batch."""
    again = world_on(checkpoint, 6)
    run(again)
    assert {**output, **again.plan.output} == {n: [n] for n in range(6)}
