"""A partly changed checkpoint that can no longer be undone is accepted as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.lock import hold_for_query
from penstock.checkpoint.own_files import interrupted_command
from penstock.checkpoint.paths import CheckpointPath
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import exclusive, remove_locks
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.keep import check_keep, keep
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MalformedLogError, SurgeryRefusedError
from tests.checkpoint.tools.buckets import URI, Buckets, path_at
from tests.checkpoint.tools.checkpoints import (
    age,
    commit_text,
    content_of,
    stateful,
    stateless,
    write,
)

MANIFEST_OF_FIRST = ".penstock/backups/0001/manifest.json"
DAMAGED = ["", "{", "[]", "null", '{"isDone": false}', "\x00" * 100]


def interrupted_rewind(root: CheckpointPath) -> None:
    """A rewind to batch 1 of batches 0 to 3 that was killed when commit 3 was deleted."""
    view = CheckpointView(root)
    plan = surgery.rewind(view, 1)
    begun = backup._begin(view.root, plan)
    for number, change in enumerate(plan.changes):
        backup._make(view.root, change, begun.kept(number))
        if change.path == "commits/3":
            return


def used_since(root: Path) -> Path:
    """After the interruption Spark, which does not notice it, has run batch 3 again."""
    interrupted_rewind(stateless(root))
    write(root / "commits/3", commit_text(41))
    age(root)
    return root


def test_a_checkpoint_that_spark_has_used_since_is_kept(checkpoint: Path) -> None:
    before = content_of(used_since(checkpoint))
    with pytest.raises(SurgeryRefusedError, match=r"been used since.* undo \S+ --keep --yes$"):
        backup.check_undo(checkpoint)
    keep(checkpoint, check_keep(checkpoint))
    assert content_of(checkpoint) == before
    assert interrupted_command(checkpoint) is None
    held = hold_for_query(checkpoint, "query")
    assert held is not None
    held.release()
    with pytest.raises(SurgeryRefusedError, match="has been used since"):
        backup.check_undo(checkpoint)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before


def test_no_message_advises_an_undo_that_is_refused(checkpoint: Path) -> None:
    used_since(checkpoint)
    keeping = f"penstock checkpoint undo {checkpoint} --keep --yes"
    [finding] = [f for f in verify(CheckpointView(checkpoint)).findings if ".penstock" in f.file]
    assert finding.remedy == keeping
    for refused in (backup.refuse_interrupted, backup.check_undo):
        with pytest.raises(SurgeryRefusedError, match=keeping) as caught:
            refused(checkpoint)
        assert "Undo it first" not in str(caught.value)
    with pytest.raises(CheckpointError, match=r"--yes \(if Spark .* add --keep"):
        hold_for_query(checkpoint, "query")


def test_what_can_be_undone_is_not_kept(checkpoint: Path) -> None:
    stateless(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="nothing to keep"):
        check_keep(checkpoint)
    interrupted_rewind(checkpoint)
    with pytest.raises(SurgeryRefusedError, match=r"can be undone.*: penstock checkpoint undo"):
        check_keep(checkpoint)


def test_a_checkpoint_in_a_store_is_kept_and_unlocked(buckets: Buckets, checkpoint: Path) -> None:
    buckets.upload(stateless(checkpoint))
    interrupted_rewind(path_at())
    buckets.put(".penstock/changing", b"of the process that was killed")
    buckets.put("commits/3", commit_text(41).encode())
    before = buckets.content()
    with pytest.raises(SurgeryRefusedError, match=f"{URI} --keep --yes --stopped"):
        remove_locks(path_at(), yes=True)
    with exclusive(path_at(), "undo --keep", stopped=True):
        keep(path_at(), check_keep(path_at()))
    assert buckets.content() == before
    assert ".penstock/changing" not in buckets.all_content()


@pytest.mark.parametrize("text", DAMAGED)
def test_an_unreadable_manifest_counts_as_interrupted(
    checkpoint: Path, tmp_path: Path, text: str
) -> None:
    """For example an empty one: the checkpoint was copied while the machine crashed."""
    stateless(checkpoint)
    plan = surgery.rewind(CheckpointView(checkpoint), 1)
    backup.apply(checkpoint, plan)
    manifest = checkpoint / MANIFEST_OF_FIRST
    manifest.write_text(text)
    named = rf"{manifest} cannot be read .*undo {checkpoint} --keep --yes"
    with pytest.raises(MalformedLogError, match=named):
        hold_for_query(checkpoint, "query")
    with pytest.raises(MalformedLogError, match=named):
        backup.check_undo(checkpoint)
    with pytest.raises(MalformedLogError, match=named):
        backup.apply(checkpoint, plan)
    with pytest.raises(MalformedLogError, match=named):
        fork(CheckpointView(checkpoint), tmp_path / "fork")
    verification = verify(CheckpointView(checkpoint))
    assert not verification.will_restart
    assert verification.findings[0].remedy.endswith(f"undo {checkpoint} --keep --yes")


def test_a_checkpoint_with_an_unreadable_manifest_is_shown_and_verified(checkpoint: Path) -> None:
    """With another problem, whose remedy would be a rewind."""
    stateful(checkpoint)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 2))
    manifest = checkpoint / MANIFEST_OF_FIRST
    manifest.write_text("{")
    (checkpoint / "offsets/1").unlink()
    (checkpoint / "state/0/0/3.delta").unlink()
    files = {finding.file for finding in verify(CheckpointView(checkpoint)).findings}
    assert {".penstock/backups", "offsets/1"} < files
    report = inspect(CheckpointView(checkpoint))
    assert (report.rewind_targets, report.undoable) == ((), ())
    assert inspect_batch(CheckpointView(checkpoint), 2).files == {}
    named = rf"{manifest} cannot be read"
    with pytest.raises(MalformedLogError, match=named):
        surgery.rewind(CheckpointView(checkpoint), 2)
    with pytest.raises(MalformedLogError, match=named):
        surgery.rewind_to_time(CheckpointView(checkpoint), 1002)


def test_an_unreadable_manifest_in_a_store_is_put_aside_by_the_command_in_its_error(
    buckets: Buckets, checkpoint: Path
) -> None:
    """The process that left it cannot say that it has ended, so the user has to."""
    buckets.upload(stateless(checkpoint))
    buckets.put(MANIFEST_OF_FIRST, b"{")
    with pytest.raises(MalformedLogError, match=f"undo {URI} --keep --yes --stopped$"):
        backup.check_undo(path_at())


def test_an_unreadable_manifest_is_put_aside(checkpoint: Path) -> None:
    stateless(checkpoint)
    made = backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    before = content_of(checkpoint)
    (checkpoint / MANIFEST_OF_FIRST).write_text("")
    keep(checkpoint, check_keep(checkpoint))
    assert content_of(checkpoint) == before
    assert (made.path / "manifest.json.unreadable").exists()
    assert (made.path / "files").is_dir()
    assert verify(CheckpointView(checkpoint)).will_restart
    made = backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 0))
    assert made.number == 2


@pytest.mark.parametrize("text", DAMAGED)
def test_a_manifest_of_an_interruption_that_is_damaged_is_no_finished_one(
    checkpoint: Path, text: str
) -> None:
    interrupted_rewind(stateless(checkpoint))
    manifest = checkpoint / MANIFEST_OF_FIRST
    assert json.loads(manifest.read_text())["isDone"] is False
    manifest.write_text(text)
    assert check_keep(checkpoint).backup is None
