"""A command that was interrupted is not undone below what a query has written since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.keep import check_keep, keep
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import content_of
from tests.checkpoint.tools.plans import every_command, repartition, run_batches, skip


def interrupted(root: Path, plan: Plan, steps: int) -> None:
    """The first changes of a plan, and no end."""
    begun = backup._begin(root, plan)
    for number, change in enumerate(plan.changes[:steps]):
        backup._make(root, change, begun.kept(number))


@every_command
def test_what_spark_has_used_is_kept_and_not_undone(tmp_path: Path, command: Any) -> None:
    """Wherever the command was killed: Spark, which does not notice it, has run batches since."""
    total = len(command(tmp_path / "plan").changes)
    for steps in range(total + 1):
        root = tmp_path / str(steps)
        interrupted(root, command(root), steps)
        if not can_run(root):
            continue
        run_batches(root)
        before = content_of(root)
        with pytest.raises(SurgeryRefusedError, match=r"has been used since.*--keep"):
            backup.check_undo(root)
        keep(root, check_keep(root))
        with pytest.raises(SurgeryRefusedError, match="has been used since"):
            backup.check_undo(root)
        assert content_of(root) == before


def can_run(root: Path) -> bool:
    """Spark fails if the newest commit is of a batch that is not planned."""
    view = CheckpointView(root)
    return (view.commits.newest or 0) <= (view.newest_batch or 0)


@every_command
def test_what_nothing_has_used_is_undone_and_not_kept(tmp_path: Path, command: Any) -> None:
    total = len(command(tmp_path / "plan").changes)
    for steps in range(total + 1):
        root = tmp_path / str(steps)
        plan = command(root)
        before = content_of(root)
        interrupted(root, plan, steps)
        with pytest.raises(SurgeryRefusedError, match="can be undone"):
            check_keep(root)
        backup.revert(root, backup.check_undo(root))
        assert content_of(root) == before


def test_a_commit_that_spark_has_written_is_not_taken_for_that_of_the_command(
    checkpoint: Path,
) -> None:
    """It has the same bytes, and the command was killed before it has written its own."""
    plan = skip(checkpoint)
    interrupted(checkpoint, plan, 0)
    run_batches(checkpoint, 1)
    assert (checkpoint / "commits/1").read_bytes() == plan.changes[-1].content
    before = content_of(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="commits/1 has been written"):
        backup.check_undo(checkpoint)
    backup.revert(checkpoint, backup.backups_of(checkpoint)[-1])
    assert content_of(checkpoint) == before


def test_a_commit_that_another_has_written_first_is_left_by_a_command_that_fails(
    checkpoint: Path,
) -> None:
    plan = skip(checkpoint)
    run_batches(checkpoint, 1)
    before = content_of(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="was created by something else"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before


@pytest.mark.parametrize("command", [skip, repartition])
def test_a_backup_of_an_earlier_version_is_undone(checkpoint: Path, command: Any) -> None:
    """It has no mark for a created file and, if it was interrupted, no newest batch."""
    plan = command(checkpoint)
    before = content_of(checkpoint)
    made = backup.apply(checkpoint, plan)
    as_before(made, is_done=True)
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before
    made = backup.apply(checkpoint, plan)
    as_before(made, is_done=False)
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before


def as_before(made: backup.Backup, *, is_done: bool) -> None:
    manifest = Path(str(made.path)) / "manifest.json"
    fields = json.loads(manifest.read_text())
    fields["isDone"] = is_done
    if not is_done:
        fields["newest"] = [None, None]
    for number, change in enumerate(fields["changes"]):
        change.pop("isMarked", None)
        Path(str(made.kept(number))).unlink(missing_ok=True)
    manifest.write_text(json.dumps(fields))
