"""The lock of a query on its checkpoint."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint import lock
from penstock.checkpoint.lock import CheckpointLock, current_holder, hold_for_query
from penstock.checkpoint.own_files import BACKUPS, MANIFEST
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.activity import activity_of, exclusive
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, CheckpointInUseError, MalformedLogError
from tests.checkpoint.tools.checkpoints import stateless


def test_a_query_holds_its_checkpoint(checkpoint: Path) -> None:
    stateless(checkpoint)
    held = hold_for_query(checkpoint, "query orders")
    assert held is not None
    assert (activity_of(checkpoint).holder or "").startswith("query orders")
    held.release()
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


def test_the_remedy_for_an_unreadable_manifest_can_be_copied_into_a_shell(tmp_path: Path) -> None:
    root = tmp_path / "my jobs" / "orders"
    manifest = root / BACKUPS / "0001" / MANIFEST
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    with pytest.raises(MalformedLogError) as caught:
        hold_for_query(root, "query")
    assert str(caught.value).endswith(f"penstock checkpoint undo '{root}' --keep --yes")


def test_testing_the_lock_does_not_take_it_from_a_query(checkpoint: Path) -> None:
    stateless(checkpoint)
    with looked_at(checkpoint):
        for _ in range(300):
            held = hold_for_query(checkpoint, "query")
            assert held is not None
            held.release()


def test_testing_the_lock_does_not_refuse_a_command(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tests the lock has it for a moment, which is over when the command tries again."""
    stateless(checkpoint)
    with CheckpointLock(checkpoint, "earlier"):
        pass
    tester = os.open(checkpoint / ".penstock/lock", os.O_RDONLY)
    fcntl.flock(tester, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.close(tester))
    with exclusive(checkpoint, "rewind", stopped=True):
        assert "penstock checkpoint rewind" in (activity_of(checkpoint).holder or "")


def test_a_command_that_is_killed_while_a_query_starts_is_noticed(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the query has looked for it, and before the query has the lock."""
    stateless(checkpoint)
    plan = surgery.rewind(CheckpointView(checkpoint), 1)

    def then_a_command_is_killed(root: Path) -> None:
        monkeypatch.undo()
        begun = backup._begin(root, plan)
        backup._make(root, plan.changes[0], begun.kept(0))

    monkeypatch.setattr(lock, "interrupted_command", then_a_command_is_killed)
    with pytest.raises(CheckpointInUseError, match=r"rewind --to 1` was interrupted.*undo"):
        hold_for_query(checkpoint, "query")
    assert current_holder(checkpoint) is None


def test_no_query_starts_where_the_backups_cannot_be_read(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because a command of root has created them."""
    stateless(checkpoint)
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name), checkpoint / BACKUPS))
    with pytest.raises(CheckpointError, match=r"backups cannot be read, .*Give this user access"):
        hold_for_query(checkpoint, "query")


def test_a_query_locks_a_file_that_it_cannot_write(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because a command of root has created it."""
    stateless(checkpoint)
    with exclusive(checkpoint, "rewind", stopped=True):
        pass
    lock_file = checkpoint / ".penstock/lock"
    assert lock_file.read_bytes() == b""
    monkeypatch.setattr(os, "open", refusing(os.open, lock_file, os.O_RDWR))
    held = hold_for_query(checkpoint, "query")
    assert held is not None
    assert current_holder(checkpoint) == "a process that holds its lock"
    with (
        pytest.raises(CheckpointInUseError, match="In use by a process that holds its lock"),
        exclusive(checkpoint, "rewind", stopped=True),
    ):
        raise AssertionError("not reached")
    held.release()
    assert current_holder(checkpoint) is None


def test_a_command_that_cannot_name_itself_in_the_lock_is_refused(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query would take it for another query, and run beside it."""
    stateless(checkpoint)
    with CheckpointLock(checkpoint, "query of another user"):
        pass
    lock_file = checkpoint / ".penstock/lock"
    monkeypatch.setattr(os, "open", refusing(os.open, lock_file, os.O_RDWR))
    expected = rf"{lock_file} belongs to \S+, and .*no query could see.*Run it as that user"
    with (
        pytest.raises(CheckpointError, match=expected),
        exclusive(checkpoint, "rewind", stopped=True),
    ):
        raise AssertionError("not reached")
    assert current_holder(checkpoint) is None


def test_the_users_of_a_group_can_share_the_lock(checkpoint: Path) -> None:
    before = os.umask(0o002)
    try:
        with CheckpointLock(stateless(checkpoint), "query"):
            assert (checkpoint / ".penstock/lock").stat().st_mode & 0o777 == 0o664
    finally:
        os.umask(before)


def test_a_query_that_runs_without_a_lock_says_so(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stateless(checkpoint)
    monkeypatch.setattr(os, "open", refusing(os.open, checkpoint / ".penstock/lock"))
    assert hold_for_query(checkpoint, "query") is None
    [warning] = caplog.messages
    assert f"runs without the lock on {checkpoint}" in warning
    assert "Permission denied" in warning


def test_a_query_that_may_not_create_the_lock_is_told_so(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory exists, since a command of another user has created it."""
    stateless(checkpoint)
    (checkpoint / ".penstock").mkdir()
    monkeypatch.setattr(os, "open", refusing(os.open, checkpoint / ".penstock/lock", os.O_CREAT))
    assert hold_for_query(checkpoint, "query") is None
    [warning] = caplog.messages
    assert "Permission denied" in warning
    assert "No such file" not in warning


def test_a_query_is_told_that_a_command_is_running(checkpoint: Path) -> None:
    """Its manifest says that it has not finished, as that of an interrupted one."""
    stateless(checkpoint)
    backup._begin(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    with (
        exclusive(checkpoint, "rewind", stopped=True),
        pytest.raises(CheckpointInUseError, match="is being changed by penstock checkpoint rewind"),
    ):
        hold_for_query(checkpoint, "query")


def test_a_command_that_has_not_named_itself_yet_is_waited_for(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command takes the lock first and then writes its name."""
    stateless(checkpoint)
    with CheckpointLock(checkpoint, "earlier"):
        pass
    lock_file = checkpoint / ".penstock/lock"
    command = os.open(lock_file, os.O_RDWR)
    fcntl.flock(command, fcntl.LOCK_EX)
    holder = {"pid": 1, "host": "here", "owner": lock.owner_of("rewind")}
    monkeypatch.setattr(time, "sleep", lambda _: lock_file.write_text(json.dumps(holder)))
    with pytest.raises(
        CheckpointInUseError, match="is being changed by penstock checkpoint rewind"
    ):
        hold_for_query(checkpoint, "query")
    os.close(command)


def refusing(call: Callable[..., Any], refused: Path, flags: int = 0) -> Callable[..., Any]:
    """A system call that is not permitted for one path, if it is made with these flags."""

    def made(path: Any, *given: Any, **named: Any) -> Any:
        if str(path) == str(refused) and (not flags or given[0] & flags):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return call(path, *given, **named)

    return made


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


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_forked_child_does_not_keep_the_lock(checkpoint: Path, is_killed: bool) -> None:
    """A killed parent closes its file without releasing the lock."""
    held = CheckpointLock(checkpoint, "query q")
    held.acquire()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.write(write, b"forked")
        signal.pause()
        os._exit(0)
    os.close(write)
    try:
        assert os.read(read, 10) == b"forked"
        assert current_holder(checkpoint) is not None
        if is_killed:
            held._close()
        else:
            held.release()
        assert current_holder(checkpoint) is None
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
