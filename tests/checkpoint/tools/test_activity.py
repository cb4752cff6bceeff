"""Signs of a running query: recent log entries, and the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.checkpoint.lock import CheckpointLock
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import Activity, activity_of, exclusive
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointInUseError
from tests.checkpoint.tools.checkpoints import content_of, stateless

HOLD = """
import sys
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.lock import CheckpointLock
CheckpointLock(sys.argv[1], "query orders").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_once(checkpoint: Path) -> None:
    stateless(checkpoint)
    with (
        CheckpointLock(checkpoint, "query orders"),
        pytest.raises(CheckpointInUseError, match=rf"query orders \(process {os.getpid()}"),
    ):
        CheckpointLock(checkpoint, "another").acquire()
    CheckpointLock(checkpoint, "another").acquire()


def test_acquire_and_release_may_be_repeated(checkpoint: Path) -> None:
    lock = CheckpointLock(checkpoint, "query")
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    assert activity_of(checkpoint).holder is None


def test_a_lock_ends_with_its_process(checkpoint: Path) -> None:
    stateless(checkpoint)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(checkpoint)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert "query orders" in (activity_of(checkpoint).holder or "")
        with (
            pytest.raises(CheckpointInUseError, match="In use by query orders"),
            exclusive(checkpoint, "rewind", stopped=True),
        ):
            raise AssertionError("not reached")
        process.kill()
    assert activity_of(checkpoint).holder is None


def test_a_recent_log_entry_is_a_sign_of_a_query(checkpoint: Path) -> None:
    stateless(checkpoint)
    modified = 1_000_000_000
    assert activity_of(checkpoint, now=modified + 59).is_recent
    assert "--stopped" in (activity_of(checkpoint, now=modified + 59).warning or "")
    assert activity_of(checkpoint, now=modified + 61).warning is None


def test_stopped_overrides_recent_log_entries(checkpoint: Path) -> None:
    stateless(checkpoint)
    os.utime(checkpoint / "offsets/3")
    with (
        pytest.raises(CheckpointInUseError, match="offsets/3 was written"),
        exclusive(checkpoint, "rewind", stopped=False),
    ):
        raise AssertionError("not reached")
    with exclusive(checkpoint, "rewind", stopped=True):
        assert "rewind" in (activity_of(checkpoint).holder or "")


def test_a_preview_with_stopped_mentions_a_lock_only(checkpoint: Path) -> None:
    stateless(checkpoint)
    os.utime(checkpoint / "offsets/3")
    activity = activity_of(checkpoint)
    assert activity.warning_of_preview(stopped=False) == activity.warning
    assert activity.warning_of_preview(stopped=True) is None
    held = Activity("query orders", None, None, may_have_ended=True)
    assert "add --stopped" in (held.warning_of_preview(stopped=False) or "")
    assert held.warning_of_preview(stopped=True) == "In use by query orders."


def test_entries_written_by_a_command_are_no_sign_of_a_query(checkpoint: Path) -> None:
    stateless(checkpoint, 2, planned=True)
    backup.apply(checkpoint, surgery.skip(CheckpointView(checkpoint)))
    assert activity_of(checkpoint).warning is None


def test_looking_changes_nothing(checkpoint: Path) -> None:
    stateless(checkpoint)
    before = content_of(checkpoint)
    activity_of(checkpoint)
    assert content_of(checkpoint) == before
    assert not (checkpoint / ".penstock").exists()


def test_a_directory_without_logs_shows_no_activity(tmp_path: Path) -> None:
    assert activity_of(tmp_path).warning is None


def test_a_lock_file_without_a_name_in_it_still_holds(checkpoint: Path) -> None:
    stateless(checkpoint)
    with CheckpointLock(checkpoint, "query"):
        (checkpoint / ".penstock/lock").write_text("")
        assert activity_of(checkpoint).holder == "a process that holds its lock"
