"""`show`, `verify` and `fork` while a query adds files and removes old ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.tools.activity import activity_of
from penstock.checkpoint.tools.compactible_log import CompactibleLog
from penstock.checkpoint.tools.fork import fork, fork_before
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import MalformedLogError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import (
    commit_text,
    file_entry,
    offsets_text,
    state_version,
    stateful,
    write,
)

RETAINED = 100
COMPACTED = 10


class RunningQuery:
    """After every listing of a directory, the next batch runs and the oldest is purged.

    The state has a snapshot of every version; the source's log is compacted every ten entries.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._next = 0
        stateful(root, 0)
        for _ in range(RETAINED + COMPACTED):
            self.step()

    def step(self) -> None:
        batch, self._next = self._next, self._next + 1
        self._log_input(batch)
        write(self._root / f"offsets/{batch}", offsets_text([f'{{"logOffset":{batch}}}']))
        for partition in range(2):
            state_version(self._root, partition, batch + 1, "snapshot")
        write(self._root / f"commits/{batch}", commit_text())
        self._purge(batch - RETAINED)

    def _log_input(self, batch: int) -> None:
        if (batch + 1) % COMPACTED:
            write(self._root / f"sources/0/{batch}", f"v1\n{file_entry(batch)}")
        else:
            lines = "\n".join(["v1", *map(file_entry, range(batch + 1))])
            write(self._root / f"sources/0/{batch}.compact", lines)

    def _purge(self, batch: int) -> None:
        old = [f"offsets/{batch}", f"commits/{batch}"]
        old += [f"sources/0/{batch}", f"sources/0/{batch}.compact"]
        old += [f"state/0/{partition}/{batch + 1}.snapshot" for partition in range(2)]
        for path in (self._root / name for name in old):
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


class Listing:
    """What `os.scandir` returns, read to its end."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = iter(list(entries))

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Iterator[Any]:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to close."""


@pytest.fixture
def query(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> RunningQuery:
    running = RunningQuery(checkpoint)
    scan, listed = os.scandir, os.listdir

    def scandir(path: Any = ".") -> Listing:
        with scan(path) as entries:
            found = Listing(entries)
        running.step()
        return found

    def listdir(path: Any = ".") -> list[str]:
        found = listed(path)
        running.step()
        return found

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "listdir", listdir)
    return running


def test_a_fork_is_made_and_sound(
    query: RunningQuery, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    monkeypatch.undo()
    assert made.at == made.next_batch - 1
    assert verify(CheckpointView(made.path)).will_restart


def test_a_fork_before_a_batch_is_made_and_sound(
    query: RunningQuery, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = CheckpointView(checkpoint)
    made = fork_before(view, tmp_path / "fork", view.next_batch - 5)
    monkeypatch.undo()
    assert made.next_batch == view.next_batch - 5
    assert verify(CheckpointView(made.path)).will_restart


def test_a_fork_at_a_batch_that_is_purged_meanwhile_is_refused(
    query: RunningQuery, checkpoint: Path, tmp_path: Path
) -> None:
    view = CheckpointView(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="cannot be continued after batch"):
        fork(view, tmp_path / "fork", at=view.offsets.ids[1])
    assert not (tmp_path / "fork").exists()


def test_show_works_beside_a_query(query: RunningQuery, checkpoint: Path) -> None:
    report = inspect(CheckpointView(checkpoint))
    assert len(report.batches) > RETAINED - 5
    assert all(part.bytes for part in report.sizes)
    newest = report.batches[-1].id
    assert inspect_batch(CheckpointView(checkpoint), newest).batch.id == newest


def test_activity_is_found_beside_a_query(query: RunningQuery, checkpoint: Path) -> None:
    assert activity_of(checkpoint).is_recent


def test_a_purged_entry_is_reported(checkpoint: Path) -> None:
    stateful(checkpoint)
    log = CompactibleLog.scan(checkpoint / "sources/0")
    (checkpoint / "sources/0/0").unlink()
    with pytest.raises(MalformedLogError, match="sources/0/0 is gone"):
        log.entries(0)
    assert log.is_file_log
