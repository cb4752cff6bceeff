"""Who is using a checkpoint in an object store: queries, commands, and processes that are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint import store_lock
from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.lock import CheckpointLock
from penstock.checkpoint.store_lock import (
    CHANGING,
    RUNNING,
    StoreLock,
    hold_store_for_query,
    store_holder,
)
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive, remove_locks
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointInUseError, MalformedLogError, SurgeryRefusedError
from tests.checkpoint.tools.buckets import URI, Buckets, files_of, path_at, use_buckets
from tests.checkpoint.tools.checkpoints import stateless


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> Buckets:
    made = use_buckets(monkeypatch)
    made.upload(stateless(checkpoint))
    return made


def test_a_command_is_refused_while_a_query_runs(buckets: Buckets) -> None:
    run = hold_store_for_query(files_of(path_at()), "query orders")
    assert "query orders (process" in (activity_of(path_at()).holder or "")
    with (
        pytest.raises(CheckpointInUseError, match=r"In use by query orders.*add --stopped"),
        exclusive(path_at(), "rewind", stopped=False),
    ):
        raise AssertionError("not reached")
    run.release()
    with exclusive(path_at(), "rewind", stopped=False):
        assert "penstock checkpoint rewind" in (activity_of(path_at()).holder or "")


def test_the_record_of_a_killed_query_is_taken_over(buckets: Buckets) -> None:
    hold_store_for_query(files_of(path_at()), "query orders")
    with exclusive(path_at(), "rewind", stopped=True):
        assert RUNNING not in buckets.all_content()
    assert activity_of(path_at()).holder is None


def test_a_query_replaces_the_record_of_an_earlier_run(buckets: Buckets) -> None:
    first = hold_store_for_query(files_of(path_at()), "query orders 1")
    second = hold_store_for_query(files_of(path_at()), "query orders 2")
    first.release()
    assert "orders 2" in (store_holder(files_of(path_at())) or "")
    second.release()
    assert store_holder(files_of(path_at())) is None


def test_a_query_does_not_start_while_a_command_runs(buckets: Buckets) -> None:
    with (
        exclusive(path_at(), "rewind --to 1", stopped=False),
        pytest.raises(CheckpointInUseError, match=r"changed by penstock checkpoint rewind --to 1"),
    ):
        hold_store_for_query(files_of(path_at()), "query orders")
    assert RUNNING not in buckets.all_content()
    hold_store_for_query(files_of(path_at()), "query orders")


def test_two_commands(buckets: Buckets) -> None:
    with (
        exclusive(path_at(), "rewind", stopped=False),
        pytest.raises(CheckpointInUseError, match="In use by penstock checkpoint rewind"),
        exclusive(path_at(), "skip", stopped=False),
    ):
        raise AssertionError("not reached")
    assert CHANGING not in buckets.all_content()


def test_of_two_that_start_together_one_finds_the_other(buckets: Buckets) -> None:
    """The query has looked before the command has; the command looks after it has written."""
    lock = StoreLock(files_of(path_at()), "penstock checkpoint rewind")
    run = hold_store_for_query(files_of(path_at()), "query orders")
    with pytest.raises(CheckpointInUseError, match="query orders"):
        lock.acquire(stopped=False)
    assert CHANGING not in buckets.all_content()
    run.release()
    lock.acquire(stopped=False)
    with pytest.raises(CheckpointInUseError, match="rewind"):
        hold_store_for_query(files_of(path_at()), "query orders")
    lock.release()


def test_what_cannot_look_for_another_leaves_no_lock(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(files: CheckpointFiles, name: str) -> None:
        raise OSError(f"{name}: connection reset")

    lock = StoreLock(files_of(path_at()), "penstock checkpoint rewind")
    with monkeypatch.context() as patch:
        patch.setattr(store_lock, "holder_in", fail)
        with pytest.raises(OSError, match="running: connection reset"):
            lock.acquire(stopped=False)
        with pytest.raises(OSError, match="changing: connection reset"):
            hold_store_for_query(files_of(path_at()), "query orders")
    assert not {CHANGING, RUNNING} & buckets.all_content().keys()


def test_no_query_starts_on_a_partly_changed_checkpoint(buckets: Buckets) -> None:
    """It has no lock: it was copied to the store, or the lock was removed there by hand."""
    view = CheckpointView(path_at())
    backup.apply(view.root, surgery.rewind(view, 2))
    backup._begin(path_at(), surgery.rewind(CheckpointView(path_at()), 1))
    assert CHANGING not in buckets.all_content()
    undoing = rf"partly changed: .*rewind --to 1` was interrupted.* undo {URI} --yes --stopped"
    with pytest.raises(CheckpointInUseError, match=undoing):
        hold_store_for_query(files_of(path_at()), "query orders")
    assert RUNNING not in buckets.all_content()
    backup.revert(path_at(), backup.check_undo(path_at()))
    hold_store_for_query(files_of(path_at()), "query orders").release()


def test_no_query_starts_beside_an_unreadable_manifest(buckets: Buckets) -> None:
    buckets.put(".penstock/backups/0001/files/0", b"x")
    buckets.put(".penstock/backups/0002/manifest.json", b"{")
    with pytest.raises(MalformedLogError, match=f"undo {URI} --keep --yes --stopped$"):
        hold_store_for_query(files_of(path_at()), "query orders")
    assert RUNNING not in buckets.all_content()


def test_unlock(buckets: Buckets) -> None:
    assert remove_locks(path_at(), yes=True) == []
    hold_store_for_query(files_of(path_at()), "query orders")
    StoreLock(files_of(path_at()), "penstock checkpoint skip")._files.create_if_absent(
        CHANGING, b"not json"
    )
    found = remove_locks(path_at(), yes=False)
    assert found[0] == f"a process that has written {URI}/{CHANGING}"
    assert found[1].startswith("query orders (process ")
    assert remove_locks(path_at(), yes=True) == found
    assert remove_locks(path_at(), yes=True) == []


def test_unlock_waits_for_an_interrupted_command(buckets: Buckets) -> None:
    manifest = {"operation": "rewind --to 1", "madeAtMs": 0, "isDone": False}
    manifest |= {"newest": [None, None], "changes": []}
    buckets.put(".penstock/backups/0001/manifest.json", json.dumps(manifest).encode())
    with pytest.raises(SurgeryRefusedError, match=r"undo s3a://\S+ --yes --stopped"):
        remove_locks(path_at(), yes=True)


def test_a_local_directory_needs_no_unlock(checkpoint: Path) -> None:
    assert remove_locks(stateless(checkpoint), yes=True) == []
    with (
        CheckpointLock(checkpoint, "query orders"),
        pytest.raises(SurgeryRefusedError, match="ends with its process"),
    ):
        remove_locks(checkpoint, yes=True)


def test_recent_entries_are_a_sign_of_a_query_of_spark(buckets: Buckets) -> None:
    buckets.put("commits/3", b"v1\n{}")
    with (
        pytest.raises(CheckpointInUseError, match="commits/3 was written"),
        exclusive(path_at(), "rewind", stopped=False),
    ):
        raise AssertionError("not reached")
    with exclusive(path_at(), "rewind", stopped=True):
        pass


def test_a_record_that_cannot_be_removed_is_logged(
    buckets: Buckets, caplog: pytest.LogCaptureFixture
) -> None:
    run = hold_store_for_query(files_of(path_at()), "query orders")
    buckets.fails_at = 0
    run.release()
    assert "will want --stopped" in caplog.text
