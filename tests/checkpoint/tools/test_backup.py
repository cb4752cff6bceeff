"""A plan is applied completely or not at all, and can be undone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.checkpoint.own_files import interrupted_command
from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import content_of, stateful, stateless, write


def plan_of(*changes: Change) -> Plan:
    return Plan("test", "nothing", changes)


def undo(root: Path) -> None:
    backup.revert(root, backup.check_undo(root))


def test_undo_reverts_one_command_after_the_other(checkpoint: Path) -> None:
    stateful(checkpoint, 4, planned=True)
    states = [content_of(checkpoint)]
    backup.apply(checkpoint, surgery.replan(CheckpointView(checkpoint)))
    states.append(content_of(checkpoint))
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    states.append(content_of(checkpoint))
    backup.apply(checkpoint, source_surgery.set_offset(CheckpointView(checkpoint), "0", "-"))
    for expected in reversed(states):
        undo(checkpoint)
        assert content_of(checkpoint) == expected
    with pytest.raises(SurgeryRefusedError, match="nothing to undo"):
        undo(checkpoint)


@pytest.mark.parametrize("steps", range(5))
def test_an_interrupted_command_is_reverted_by_undo(checkpoint: Path, steps: int) -> None:
    """As after a kill: `isDone` is false in the manifest, and the first changes are made."""
    stateless(checkpoint)
    before = content_of(checkpoint)
    plan = plan_of(
        Change(Kind.CREATE, "commits/9", b"new"),
        Change(Kind.REPLACE, "offsets/3", b"changed"),
        Change(Kind.DELETE, "offsets/2"),
        Change(Kind.MOVE, "sources/0", target="sources/5"),
    )
    begun = backup._begin(checkpoint, plan)
    for number, change in enumerate(plan.changes[:steps]):
        backup._make(checkpoint, change, begun.kept(number))
    assert not verify(CheckpointView(checkpoint)).will_restart
    with pytest.raises(SurgeryRefusedError, match="was interrupted"):
        backup.apply(checkpoint, plan)
    undo(checkpoint)
    assert content_of(checkpoint) == before
    assert interrupted_command(checkpoint) is None


def test_a_command_that_fails_half_way_leaves_everything_as_it_was(checkpoint: Path) -> None:
    stateless(checkpoint)
    before = content_of(checkpoint)
    plan = plan_of(
        Change(Kind.REPLACE, "offsets/3", b"changed"),
        Change(Kind.DELETE, "offsets/2"),
        Change(Kind.CREATE, "commits/3", b"is there already"),
    )
    with pytest.raises(SurgeryRefusedError, match="was created by something else"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before
    assert backup.backups_of(checkpoint) == []


def test_a_move_does_not_replace_its_target(checkpoint: Path) -> None:
    stateless(checkpoint)
    before = content_of(checkpoint)
    with pytest.raises(FileExistsError, match="Not moved"):
        backup.apply(checkpoint, plan_of(Change(Kind.MOVE, "offsets/2", target="offsets/3")))
    assert content_of(checkpoint) == before


def test_undo_is_refused_after_a_query_has_run(checkpoint: Path) -> None:
    stateless(checkpoint)
    backup.apply(checkpoint, source_surgery.set_offset(CheckpointView(checkpoint), "0", "-"))
    write(checkpoint / "offsets/4", (checkpoint / "offsets/3").read_bytes())
    before = content_of(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="has been used since"):
        undo(checkpoint)
    assert content_of(checkpoint) == before


def test_undo_is_refused_if_a_file_was_written_again(checkpoint: Path) -> None:
    stateful(checkpoint)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    write(checkpoint / "state/0/0/3.delta", "another", twin=False)
    with pytest.raises(SurgeryRefusedError, match=r"3\.delta has been written again"):
        undo(checkpoint)


def test_undo_is_refused_if_a_file_was_edited(checkpoint: Path) -> None:
    stateless(checkpoint, 2, planned=True)
    backup.apply(checkpoint, surgery.skip(CheckpointView(checkpoint)))
    (checkpoint / "commits/2").write_text("edited")
    with pytest.raises(SurgeryRefusedError, match="has been changed"):
        undo(checkpoint)
    assert (checkpoint / "commits/2").read_text() == "edited"


def test_the_backup_is_ignored_by_the_engine(checkpoint: Path) -> None:
    stateless(checkpoint)
    made = backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    assert made.path == checkpoint / ".penstock/backups/0001"
    assert made.is_done
    assert [b.operation for b in backup.backups_of(checkpoint)] == ["rewind --to 1"]


@pytest.mark.parametrize(
    ("kind", "content", "target"),
    [
        (Kind.CREATE, None, None),
        (Kind.DELETE, b"x", None),
        (Kind.MOVE, None, None),
        (Kind.DELETE, None, "x"),
    ],
)
def test_a_change_is_complete(kind: Kind, content: bytes | None, target: str | None) -> None:
    with pytest.raises(ValueError, match="not a change"):
        Change(kind, "x", content, target)


def test_a_replaced_file_keeps_its_mode_and_its_owner(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda descriptor, *owner: owners.append(owner))
    stateless(checkpoint)
    replaced = checkpoint / "offsets/3"
    replaced.chmod(0o640)
    backup.apply(checkpoint, source_surgery.set_offset(CheckpointView(checkpoint), "0", "-"))
    assert replaced.stat().st_mode & 0o777 == 0o640
    assert (os.getuid(), os.getgid()) in owners
    undo(checkpoint)
    assert replaced.stat().st_mode & 0o777 == 0o640


def test_a_replaced_file_keeps_its_mode_if_its_owner_cannot_be_set(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example on NFS, where root is nobody."""

    def refuse(descriptor: int, *owner: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", refuse)
    stateless(checkpoint)
    (checkpoint / "offsets/3").chmod(0o640)
    backup.apply(checkpoint, source_surgery.set_offset(CheckpointView(checkpoint), "0", "-"))
    assert (checkpoint / "offsets/3").stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_copied_into_the_backup_keeps_its_mode(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may have no hard links."""

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    stateless(checkpoint)
    (checkpoint / "offsets/3").chmod(0o640)
    monkeypatch.setattr(os, "link", refuse)
    backup.apply(checkpoint, plan_of(Change(Kind.REPLACE, "offsets/3", b"changed")))
    undo(checkpoint)
    assert (checkpoint / "offsets/3").stat().st_mode & 0o777 == 0o640


def test_a_diff_shows_small_text_only(checkpoint: Path) -> None:
    write(checkpoint / "text", "a\nb")
    write(checkpoint / "binary", b"\xff\xfe")
    assert Change(Kind.REPLACE, "text", b"a\nc").diff(checkpoint) == ["-b", "+c"]
    assert Change(Kind.DELETE, "text").diff(checkpoint) == ["-a", "-b"]
    assert Change(Kind.CREATE, "new", b"x").diff(checkpoint) == ["+x"]
    assert Change(Kind.DELETE, "binary").diff(checkpoint) == []
