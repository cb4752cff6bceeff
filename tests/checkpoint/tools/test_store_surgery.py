"""A command on a checkpoint in an object store that is killed or fails at any request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.store_lock import CHANGING, RUNNING, hold_store_for_query
from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive, remove_locks
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointInUseError, SurgeryRefusedError
from tests.checkpoint.tools.buckets import URI, Buckets, Killed, files_of, path_at
from tests.checkpoint.tools.checkpoints import stateful, stateless, two_sources, write

Command = Callable[[CheckpointView], Plan]


def with_state(root: Path) -> Path:
    write(root / "state/0/0/1.delta", "x")
    write(root / "state/0/1/1.delta", "y")
    return stateful(root, 0, planned=True)


def two_batches(root: Path) -> Path:
    return stateful(root, 2)


def two_of_two(root: Path) -> Path:
    return two_sources(root, 2)


def planned(root: Path) -> Path:
    return stateless(root, 1, planned=True)


def rewind(view: CheckpointView) -> Plan:
    return surgery.rewind(view, 0)


def set_offset(view: CheckpointView) -> Plan:
    return source_surgery.set_offset(view, "0", "-")


def remove_source(view: CheckpointView) -> Plan:
    return source_surgery.remove_source(view, "0")


def reorder_sources(view: CheckpointView) -> Plan:
    return source_surgery.reorder_sources(view, [1, 0])


CASES: list[tuple[Callable[[Path], Path], Command]] = [
    (two_batches, rewind),
    (with_state, surgery.replan),
    (planned, surgery.skip),
    (two_batches, set_offset),
    (two_of_two, remove_source),
    (two_of_two, reorder_sources),
]
every_command = pytest.mark.parametrize("case", CASES, ids=lambda case: case[1].__name__)


def do(command: Command, *, stopped: bool = False) -> None:
    with exclusive(path_at(), command.__name__, stopped=stopped):
        view = CheckpointView(URI)
        backup.apply(view.root, command(view))


def undo(*, stopped: bool = False) -> None:
    with exclusive(path_at(), "undo", stopped=stopped):
        root = CheckpointView(URI).root
        backup.revert(root, backup.check_undo(root))


def changes_of(command: Command, buckets: Buckets) -> int:
    """The number of requests of a command that change something."""
    before = buckets.changes
    do(command)
    made = buckets.changes - before
    undo()
    return made


@every_command
def test_a_killed_command_is_undone(buckets: Buckets, checkpoint: Path, case: Any) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.all_content()
    for dies_at in range(changes_of(case[1], buckets)):
        buckets.dies_at = dies_at
        with pytest.raises(Killed):
            do(case[1])
        buckets.heal()
        if CHANGING not in buckets.all_content():
            assert buckets.all_content() == before
            continue
        with pytest.raises(CheckpointInUseError, match="is being changed by"):
            hold_store_for_query(files_of(path_at()), "query orders")
        with pytest.raises(CheckpointInUseError, match="add --stopped"):
            do(case[1])
        if backup.backups_of(path_at()):
            undo(stopped=True)
        else:
            remove_locks(path_at(), yes=True)
        assert buckets.all_content() == before, dies_at


@every_command
def test_a_killed_undo_is_repeated(buckets: Buckets, checkpoint: Path, case: Any) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.all_content()
    do(case[1])
    changed = buckets.all_content()
    so_far = buckets.changes
    undo()
    for dies_at in range(buckets.changes - so_far):
        do(case[1])
        buckets.dies_at = dies_at
        with pytest.raises(Killed):
            undo()
        buckets.heal()
        if backup.backups_of(path_at()):
            undo(stopped=True)
        else:
            remove_locks(path_at(), yes=True)
        left = {name for name in buckets.all_content() if "/backups/" in name}
        assert buckets.content() == {n: d for n, d in before.items() if ".penstock" not in n}
        buckets.remove(sorted(left))
    assert changed != before


@every_command
@pytest.mark.parametrize("fault", ["fails_at", "loses_at"])
def test_a_failed_request_undoes_the_command(
    buckets: Buckets, checkpoint: Path, case: Any, fault: str
) -> None:
    buckets.upload(case[0](checkpoint))
    before = buckets.content()
    for number in range(changes_of(case[1], buckets)):
        setattr(buckets, fault, number)
        with suppress(OSError):
            do(case[1])
        buckets.heal()
        if backup.backups_of(path_at()):  # it was finished; only the answer to its end was lost
            undo(stopped=True)
        else:
            remove_locks(path_at(), yes=True)
        assert buckets.content() == before, number


def test_a_command_leaves_no_lock(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    do(rewind)
    assert CHANGING not in buckets.all_content()
    assert activity_of(path_at()).holder is None
    hold_store_for_query(files_of(path_at()), "query orders").release()
    assert RUNNING not in buckets.all_content()


def test_what_a_command_has_copied_is_no_sign_of_a_query(
    buckets: Buckets, checkpoint: Path
) -> None:
    buckets.upload(stateful(checkpoint))
    do(rewind)
    undo()
    assert activity_of(path_at()).warning is None
    copy = "s3a://bucket/copy"
    fork(CheckpointView(URI), copy)
    assert activity_of(path_at(copy)).warning is None
    buckets.put("commits/3", b"v1\n{} ")
    assert "commits/3 was written" in (activity_of(path_at()).warning or "")


def test_a_command_that_runs_is_reported(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    with exclusive(path_at(), "rewind", stopped=False):
        (finding,) = verify(CheckpointView(URI)).findings
    assert finding.file == CHANGING
    assert f"unlock {URI} --yes" in finding.remedy
    assert verify(CheckpointView(URI)).findings == ()


def test_an_undo_after_a_batch_is_refused(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateful(checkpoint))
    do(rewind)
    buckets.put("offsets/1", b"v1\n{}\n-")
    with pytest.raises(SurgeryRefusedError, match="has been used since"):
        undo(stopped=True)


def test_a_change_of_the_same_file_by_another_is_found(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(two_batches(checkpoint))
    do(set_offset)
    buckets.put("offsets/1", b"something else")
    with pytest.raises(SurgeryRefusedError, match="has been changed"):
        undo(stopped=True)
