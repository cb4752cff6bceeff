"""The lock of a query on its checkpoint."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.checkpoint.lock import hold_for_query
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointInUseError
from tests.checkpoint.tools.checkpoints import stateless


def test_a_query_holds_its_checkpoint(checkpoint: Path) -> None:
    stateless(checkpoint)
    lock = hold_for_query(checkpoint, "query orders")
    assert lock is not None
    assert (activity_of(checkpoint).holder or "").startswith("query orders")
    lock.release()
    assert activity_of(checkpoint).holder is None


def test_a_query_runs_although_another_holds_the_lock(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stateless(checkpoint)
    first = hold_for_query(checkpoint, "first")
    assert first is not None
    assert hold_for_query(checkpoint, "second") is None
    assert caplog.messages == []  # the manager knows the queries of this process
    first.release()


HOLDER = """
import sys
from pathlib import Path
from penstock.checkpoint.lock import hold_for_query
lock = hold_for_query(Path(sys.argv[1]), "query orders")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_query_of_another_process_is_named(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stateless(checkpoint)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(checkpoint)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    assert hold_for_query(checkpoint, "query orders") is None
    other.communicate()
    [warning] = caplog.messages
    named = f"{checkpoint} is used by query orders (process {other.pid} on "
    assert warning.startswith(named)


def test_a_query_runs_although_the_lock_cannot_be_created(checkpoint: Path) -> None:
    stateless(checkpoint)
    assert hold_for_query(checkpoint / "metadata", "query") is None


def test_no_query_starts_while_a_command_changes_the_checkpoint(checkpoint: Path) -> None:
    stateless(checkpoint)
    with (
        exclusive(checkpoint, "rewind", stopped=True),
        pytest.raises(CheckpointInUseError, match="is being changed by penstock checkpoint rewind"),
    ):
        hold_for_query(checkpoint, "query")


def test_no_query_starts_on_a_partly_changed_checkpoint(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stateless(checkpoint)
    plan = surgery.rewind(CheckpointView(checkpoint), 1)
    monkeypatch.setattr(backup, "revert", lambda root, begun: None)  # as if killed
    monkeypatch.setattr(backup, "_sync_all", _die)
    with pytest.raises(KeyboardInterrupt):
        backup.apply(checkpoint, plan)
    with pytest.raises(CheckpointInUseError, match=r"rewind --to 1` was interrupted.*undo"):
        hold_for_query(checkpoint, "query")


def test_testing_the_lock_does_not_take_it_from_a_query(checkpoint: Path) -> None:
    stateless(checkpoint)
    with looked_at(checkpoint):
        for _ in range(300):
            lock = hold_for_query(checkpoint, "query")
            assert lock is not None
            lock.release()


@contextmanager
def looked_at(checkpoint: Path) -> Iterator[None]:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            activity_of(checkpoint)

    thread = threading.Thread(target=look)
    thread.start()
    yield
    done.set()
    thread.join()


def _die(*args: object) -> None:
    raise KeyboardInterrupt
