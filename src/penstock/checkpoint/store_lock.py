"""The lock on a checkpoint in an object store.

    .penstock/running     written by a query when it starts, removed when it ends
    .penstock/changing    written by a `penstock checkpoint` command that changes the checkpoint,
                          only if it does not exist; removed when the command has finished
    .penstock/changed     written when a command has finished: an object that a command has copied
                          is as new as one that a query has written

The file `.penstock/lock` of a local checkpoint has no meaning in a store that it was copied to.

Each side writes its own file first and then looks for the other's: of a query and a command that
start at the same time, at least one finds the other and gives up. Two queries are kept apart by the
log entries, which the store refuses to create twice; the newest has written `running`.

A store does not notice that a process has ended. The files of a killed process stay: a query
replaces the `running` of an earlier one, a command takes over both with `--stopped`, and
`penstock checkpoint unlock` removes them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from contextlib import suppress

from penstock.checkpoint.commands import checkpoint_command
from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.own_files import OWN_DIRECTORY, interrupted_in, partly_changed
from penstock.checkpoint.timestamps import format_timestamp
from penstock.errors import CheckpointInUseError

_logger = logging.getLogger(__name__)

STORE_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
"""The schemes of the locations that `penstock checkpoint` can change, and their kind of store."""

CHANGING = f"{OWN_DIRECTORY}/changing"
CHANGED = f"{OWN_DIRECTORY}/changed"
RUNNING = f"{OWN_DIRECTORY}/running"


class StoreRun:
    """The record that a query is running, from `hold_store_for_query` to `release`."""

    def __init__(self, files: CheckpointFiles, data: bytes) -> None:
        self._files = files
        self._data = data

    def release(self) -> None:
        """Remove the record, unless another query has replaced it. An error is logged."""
        try:
            if self._files.holds(RUNNING, self._data):
                self._files.delete(RUNNING)
        except OSError as exc:
            _logger.warning(
                "%s was not removed, so `penstock checkpoint` will want --stopped: %s",
                self._files.path(RUNNING),
                exc,
            )


def hold_store_for_query(files: CheckpointFiles, query: str) -> StoreRun:
    """Record that a query is running.

    Raises CheckpointInUseError if a command has the lock, or was interrupted and its lock is gone:
    the checkpoint may be a copy of a partly changed one.
    """
    data = _described(query)
    files.make_directory(OWN_DIRECTORY)
    files.delete(RUNNING)
    files.create_if_absent(RUNNING, data)  # if another query was faster, its record is as good
    run = StoreRun(files, data)
    try:
        holder = holder_in(files, CHANGING)
        if holder is not None:
            raise CheckpointInUseError(
                f"{files.root} is being changed by {holder}. Start the query again when it has "
                "finished. If that process has ended, the command was interrupted: "
                + checkpoint_command("unlock", files.root)
            )
        operation = interrupted_in(files)
        if operation is not None:
            raise partly_changed(files.root, operation)
    except BaseException:
        run.release()
        raise
    return run


class StoreLock:
    """The lock of a command, held from `acquire` to `release`."""

    def __init__(self, files: CheckpointFiles, owner: str) -> None:
        self._files = files
        self._data = _described(owner)

    def acquire(self, *, stopped: bool) -> None:
        """Take the lock. Raises CheckpointInUseError, with the holder, if another has it.

        With `stopped`, the user's assurance that no query and no other command is running, the
        files of another process are removed.
        """
        if stopped:
            self._files.delete_many([CHANGING, RUNNING])
        if not self._files.create_if_absent(CHANGING, self._data):
            raise _in_use(holder_in(self._files, CHANGING) or "another command")
        try:
            holder = holder_in(self._files, RUNNING)
            if holder is not None:
                raise _in_use(holder)
        except BaseException:
            with suppress(OSError):
                self.release()
            raise

    def release(self) -> None:
        if self._files.holds(CHANGING, self._data):
            self._files.delete(CHANGING)


def store_holder(files: CheckpointFiles) -> str | None:
    """A description of the command or the query that has recorded itself; None if none has."""
    return holder_in(files, CHANGING) or holder_in(files, RUNNING)


def holder_in(files: CheckpointFiles, name: str) -> str | None:
    """A description of who has written one of the files; None if it does not exist."""
    try:
        data = files.read(name)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data)
        since = format_timestamp(fields["sinceMs"])
        return f"{fields['owner']} (process {fields['pid']} on {fields['host']}, since {since})"
    except (ValueError, KeyError, TypeError):
        return f"a process that has written {files.path(name)}"


def _in_use(holder: str) -> CheckpointInUseError:
    return CheckpointInUseError(f"In use by {holder}. {IF_ENDED}")


IF_ENDED = "A store does not notice when a process has ended: if it has, add --stopped."


def _described(owner: str) -> bytes:
    fields = {
        "owner": owner,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "sinceMs": int(time.time() * 1000),
    }
    return json.dumps(fields).encode()
