"""A command that is killed or fails at any point can be undone, on one file system or two."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.own_files import MANIFEST
from penstock.checkpoint.tools import backup, moves, surgery
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import content_of, stateful, stateless, write
from tests.checkpoint.tools.plans import every_command, replan_with_state, rewind

NAMING = ("rename", "replace", "link", "unlink", "rmdir")
"""The calls that change what is at a name, between any two of which a process may die."""


class Killed(BaseException):
    """The process was killed: no further step has an effect."""


def nothing(name: str, path: str) -> bool:
    return False


class Disks:
    """The system calls, with `.penstock` on the same or another disk, until the process is killed.

    `dies_at` is the number of calls before the kill; None for no kill.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, across: bool) -> None:
        self.dies_at: int | None = None
        self.refused: Callable[[str, str], bool] = nothing
        self._across = across
        patch.setattr(os, "fsync", lambda descriptor: None)  # not needed here, and slow
        for name in NAMING:
            patch.setattr(os, name, self._call(name, getattr(os, name)))

    def _call(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*paths: Any, **options: Any) -> Any:
            if self.dies_at == 0:
                raise Killed
            if self.dies_at is not None:
                self.dies_at -= 1
            if self.refused(name, str(paths[0])):
                raise PermissionError(errno.EACCES, "Permission denied", str(paths[0]))
            if self._across and len({".penstock" in Path(path).parts for path in paths}) == 2:
                raise OSError(errno.EXDEV, "Invalid cross-device link", str(paths[0]))
            return real(*paths, **options)

        return call


@pytest.fixture(params=[False, True], ids=["one-disk", "two-disks"])
def disks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch, across=request.param)


@pytest.fixture
def two_disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch, across=True)


def kept(root: Path) -> dict[str, bytes]:
    """The content of a checkpoint without temporary files."""
    content = content_of(root).items()
    return {path: data for path, data in content if ".tmp" not in path}


def undo(root: Path) -> None:
    backup.revert(root, backup.check_undo(root))


@every_command
def test_a_change_is_made_and_undone(checkpoint: Path, disks: Disks, command: Any) -> None:
    plan = command(checkpoint)
    before = content_of(checkpoint)
    backup.apply(checkpoint, plan)
    assert content_of(checkpoint) != before
    undo(checkpoint)
    assert content_of(checkpoint) == before
    assert backup.backups_of(checkpoint) == []


@every_command
def test_a_command_may_die_anywhere(tmp_path: Path, disks: Disks, command: Any) -> None:
    for calls in range(1000):
        root = tmp_path / str(calls)
        plan = command(root)
        before = content_of(root)
        begun = backup._begin(root, plan)
        disks.dies_at = calls
        try:
            for number, change in enumerate(plan.changes):
                backup._make(root, change, begun.kept(number))
        except Killed:
            disks.dies_at = None
            undo(root)
            assert kept(root) == before, calls
        else:
            break
    assert 0 < calls < 1000


@every_command
def test_undo_may_die_anywhere(tmp_path: Path, disks: Disks, command: Any) -> None:
    for calls in range(1000):
        root = tmp_path / str(calls)
        plan = command(root)
        before = content_of(root)
        backup.apply(root, plan)
        disks.dies_at = calls
        try:
            undo(root)
        except Killed:
            disks.dies_at = None
            if backup.backups_of(root):
                undo(root)
            assert kept(root) == before, calls
        else:
            break
    assert 0 < calls < 1000


@every_command
@pytest.mark.parametrize("refused", ["rename", "unlink"])
def test_the_error_is_that_of_the_failed_call(
    tmp_path: Path, disks: Disks, command: Any, refused: str
) -> None:
    """For example for lack of permissions: the first changes are made, then one fails."""
    plan: Plan = command(tmp_path / "plan")
    for number, change in enumerate(plan.changes):
        if change.kind not in (Kind.DELETE, Kind.MOVE) or ".penstock" in change.path:
            continue
        root = tmp_path / str(number)
        command(root)
        before = content_of(root)
        call = (refused, str(root / change.path))
        disks.refused = lambda *made, call=call: made == call
        with suppress(PermissionError):
            backup.apply(root, plan)
            undo(root)
        assert content_of(root) == before
        assert backup.backups_of(root) == []


@every_command
@pytest.mark.parametrize("is_written", [False, True])
def test_a_command_whose_last_write_fails_is_reverted(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, command: Any, is_written: bool
) -> None:
    """For example because the disk is full, or because the directory cannot be synced."""
    plan = command(checkpoint)
    before = content_of(checkpoint)
    writes: list[Path] = []

    def fail_at_the_second(path: Path, content: bytes) -> None:
        writes.extend([path] if path.name == MANIFEST else [])
        is_last = path.name == MANIFEST and len(writes) == 2
        if is_written or not is_last:
            write_over(path, content)
        if is_last:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    write_over = moves.write_over
    monkeypatch.setattr(moves, "write_over", fail_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before
    assert backup.backups_of(checkpoint) == []


def test_a_command_whose_result_cannot_be_read_is_reverted(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rewind(checkpoint)
    before = content_of(checkpoint)

    reads = iter([(0, None)])  # before the changes; after them it fails

    def fail(root: Path) -> tuple[int | None, int | None]:
        for newest in reads:
            return newest
        raise OSError(errno.EIO, "Input/output error", str(root))

    monkeypatch.setattr(backup, "newest_of", fail)
    with pytest.raises(OSError, match="Input/output error"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before
    assert backup.backups_of(checkpoint) == []


def test_a_file_that_cannot_be_removed_after_copying_is_named(
    checkpoint: Path, two_disks: Disks
) -> None:
    plan = rewind(checkpoint)
    before = content_of(checkpoint)
    offsets = str(checkpoint / "offsets/1")
    two_disks.refused = lambda *call: call == ("unlink", offsets)
    with pytest.raises(PermissionError, match="offsets/1"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before
    assert backup.backups_of(checkpoint) == []


def test_a_directory_that_cannot_be_removed_is_restored(checkpoint: Path, two_disks: Disks) -> None:
    plan = replan_with_state(checkpoint)
    before = content_of(checkpoint)
    refusals = iter([True])
    two_disks.refused = lambda name, path: path == "1.delta" and next(refusals, False)
    with pytest.raises(PermissionError, match=r"1\.delta"):
        backup.apply(checkpoint, plan)
    assert kept(checkpoint) == before


def test_a_failed_undo_can_be_repeated(checkpoint: Path, disks: Disks) -> None:
    plan = rewind(checkpoint)
    before = content_of(checkpoint)
    changes = (*plan.changes, Change(Kind.CREATE, "commits/0", b"is there already"))
    disks.refused = lambda name, path: (
        name in ("rename", "replace") and "/files/" in path and not path.endswith(".tmp")
    )
    disks._across = False
    with pytest.raises(
        CheckpointError, match=r"was created by something else.*Permission.*undo"
    ) as caught:
        backup.apply(checkpoint, Plan("rewind --to 0", "nothing", changes))
    assert isinstance(caught.value.__cause__, SurgeryRefusedError)
    disks.refused = nothing
    undo(checkpoint)
    assert content_of(checkpoint) == before


def test_what_was_written_after_an_interruption_is_not_undone(checkpoint: Path) -> None:
    stateless(checkpoint, 2)
    plan = Plan("test", "nothing", (Change(Kind.DELETE, "offsets/1"),))
    begun = backup._begin(checkpoint, plan)
    backup._make(checkpoint, plan.changes[0], begun.kept(0))
    write(checkpoint / "offsets/1", "of another run")
    with pytest.raises(SurgeryRefusedError, match="offsets/1 has been written again"):
        undo(checkpoint)


def test_a_link_is_moved_as_a_link(checkpoint: Path, tmp_path: Path) -> None:
    """A relative link that is moved into the backup is dangling there."""
    stateful(checkpoint, 0, planned=True)
    write(tmp_path / "large disk/0/0/1.delta", "x")
    (checkpoint / "state/0/_metadata/metadata").unlink()
    for name in ("state/0/_metadata/.metadata.crc", "state/0/_metadata", "state/0", "state"):
        path = checkpoint / name
        path.rmdir() if path.is_dir() else path.unlink()
    (checkpoint / "state").symlink_to(Path("..") / "large disk")
    before = content_of(tmp_path)
    backup.apply(checkpoint, surgery.replan(CheckpointView(checkpoint)))
    assert not (checkpoint / "state").is_symlink()
    undo(checkpoint)
    assert (checkpoint / "state/0/0/1.delta").read_text() == "x"
    assert content_of(tmp_path) == before
