"""Checkpoint files in an object store: who has written a file, and how many requests it takes."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from penstock.checkpoint import (
    CheckpointDirectory,
    CommitMetadata,
    ObjectStoreFiles,
    OffsetSeq,
    OffsetSeqMetadata,
)
from penstock.checkpoint.known_files import TRUSTED_SECONDS
from penstock.errors import CheckpointVanishedError
from tests.memory_world.store import MemoryStore

LOST = TimeoutError(errno.ETIMEDOUT, "no answer")


class FilesAtOnce(ObjectStoreFiles):
    """Purges on the caller's thread."""

    def run_aside(self, task: Callable[[], None]) -> None:
        task()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def files(store: MemoryStore) -> FilesAtOnce:
    return FilesAtOnce(store)


def planned(batch_id: int) -> OffsetSeq:
    return OffsetSeq((str(batch_id),), OffsetSeqMetadata(0, batch_id))


def run(checkpoint: CheckpointDirectory, *batch_ids: int) -> None:
    """Plan and commit batches."""
    for batch_id in batch_ids:
        assert checkpoint.offset_log.add(batch_id, planned(batch_id))
        assert checkpoint.commit_log.add(batch_id, CommitMetadata())


# Writing.


def test_a_file_is_created_once_in_one_request(files: FilesAtOnce, store: MemoryStore) -> None:
    files.make_directory("offsets")
    assert files.create_if_absent("offsets/0", b"first")
    assert store.requests == ["put offsets/0"]
    assert not files.create_if_absent("offsets/0", b"second")
    assert files.read("offsets/0") == b"first"


def test_a_write_whose_answer_is_lost_is_recognised(files: FilesAtOnce, store: MemoryStore) -> None:
    store.after_put = [LOST]
    assert files.create_if_absent("offsets/0", b"mine")
    assert store.requests == ["put offsets/0", "head offsets/0"]
    assert files.holds("offsets/0", b"mine")


def test_a_repeated_request_is_not_refused_by_its_own_first(
    files: FilesAtOnce, store: MemoryStore
) -> None:
    store.after_put = [FileExistsError()]
    assert files.create_if_absent("offsets/0", b"mine")


def test_a_request_that_was_not_carried_out_is_repeated(
    files: FilesAtOnce, store: MemoryStore
) -> None:
    store.before_put = [LOST, LOST]
    assert files.create_if_absent("offsets/0", b"mine")
    assert store.requests.count("put offsets/0") == 3
    assert files.read("offsets/0") == b"mine"


def test_a_store_that_does_not_answer_is_an_error(files: FilesAtOnce, store: MemoryStore) -> None:
    store.before_put = [LOST] * 9
    with pytest.raises(TimeoutError):
        files.create_if_absent("offsets/0", b"mine")
    assert store.requests.count("put offsets/0") == 3


def test_the_error_of_the_write_is_raised_if_the_look_up_fails_too(
    files: FilesAtOnce, store: MemoryStore
) -> None:
    store.after_put = [LOST]
    store.before_head = [PermissionError("expired")]
    with pytest.raises(TimeoutError) as caught:
        files.create_if_absent("offsets/0", b"mine")
    assert isinstance(caught.value.__cause__, PermissionError)


def test_an_interrupted_write_is_not_looked_up(files: FilesAtOnce, store: MemoryStore) -> None:
    store.after_put = [InterruptedError()]
    with pytest.raises(InterruptedError):
        files.create_if_absent("offsets/0", b"mine")
    assert store.requests == ["put offsets/0"]


@pytest.mark.parametrize("answer", [FileExistsError(), LOST])
def test_another_with_the_same_bytes_is_another(
    files: FilesAtOnce, store: MemoryStore, answer: OSError
) -> None:
    """Two runs of a batch write the same bytes to the commit log."""
    other = ObjectStoreFiles(store)
    assert other.create_if_absent("commits/0", b"v1\n{}")
    store.before_put = [answer]
    assert not files.create_if_absent("commits/0", b"v1\n{}")


def test_without_marks_files_are_recognised_by_their_bytes() -> None:
    store = MemoryStore(keeps_marks=False)
    files = ObjectStoreFiles(store)
    store.after_put = [LOST]
    assert files.create_if_absent("offsets/0", b"mine")
    assert files.holds("offsets/0", b"mine")
    assert not files.create_if_absent("offsets/0", b"other")


# Whether the checkpoint is still there.


def test_a_steady_batch_makes_three_requests(files: FilesAtOnce, store: MemoryStore) -> None:
    checkpoint = CheckpointDirectory(files, now=lambda: 0.0)
    checkpoint.read_or_create_metadata()
    run(checkpoint, 0, 1)
    store.requests.clear()
    run(checkpoint, 2)
    assert store.requests == ["head offsets/1", "put offsets/2", "put commits/2"]


def test_a_long_batch_is_checked_before_its_commit(files: FilesAtOnce, store: MemoryStore) -> None:
    time = [0.0]
    checkpoint = CheckpointDirectory(files, now=lambda: time[0])
    checkpoint.read_or_create_metadata()
    run(checkpoint, 0)
    assert checkpoint.offset_log.add(1, planned(1))
    time[0] += TRUSTED_SECONDS
    store.objects.clear()
    with pytest.raises(CheckpointVanishedError, match="offsets/1 is gone"):
        checkpoint.commit_log.add(1, CommitMetadata())
    assert not store.objects


def empty(store: MemoryStore) -> None:
    store.objects.clear()


def older_copy(store: MemoryStore) -> None:
    del store.objects["offsets/1"], store.objects["commits/1"]


def another_query(store: MemoryStore) -> None:
    store.objects.clear()
    other = CheckpointDirectory(ObjectStoreFiles(store))
    other.read_or_create_metadata()
    run(other, 0, 1)


@pytest.mark.parametrize("replace", [empty, older_copy, another_query])
def test_nothing_is_planned_in_a_checkpoint_that_was_replaced(
    files: FilesAtOnce, store: MemoryStore, replace: Callable[[MemoryStore], None]
) -> None:
    checkpoint = CheckpointDirectory(files)
    checkpoint.read_or_create_metadata()
    run(checkpoint, 0, 1)
    replace(store)
    before = dict(store.objects)
    with pytest.raises(CheckpointVanishedError, match="offsets/1 is"):
        checkpoint.offset_log.add(2, planned(2))
    assert store.objects == before


def test_a_run_continues_from_entries_that_another_has_written(store: MemoryStore) -> None:
    first = CheckpointDirectory(FilesAtOnce(store))
    first.read_or_create_metadata()
    run(first, 0, 1)
    second = CheckpointDirectory(FilesAtOnce(store))
    second.read_or_create_metadata()
    assert second.offset_log.get_latest() == (1, planned(1))
    second.require_unchanged()
    run(second, 2)
    store.objects["offsets/2"] = (b"changed", None)
    with pytest.raises(CheckpointVanishedError, match="it was replaced"):
        run(second, 3)


# Purging.


def test_old_entries_are_removed_many_at_a_time(files: FilesAtOnce, store: MemoryStore) -> None:
    checkpoint = CheckpointDirectory(files)
    checkpoint.read_or_create_metadata()
    for batch_id in range(110):
        run(checkpoint, batch_id)
        checkpoint.purge(batch_id - 2)
    removals = [request for request in store.requests if request.startswith("delete")]
    assert removals == ["delete 50", "delete 50"] * 2
    assert not any(request.startswith("list offsets") for request in store.requests[10:])
    assert checkpoint.offset_log.list_batches() == list(range(100, 110))


def test_what_could_not_be_removed_is_removed_the_next_time(
    files: FilesAtOnce, store: MemoryStore
) -> None:
    checkpoint = CheckpointDirectory(files)
    checkpoint.read_or_create_metadata()
    run(checkpoint, *range(110))
    store.before_delete = [LOST]
    with pytest.raises(TimeoutError):
        checkpoint.purge(50)
    checkpoint.purge(100)
    assert checkpoint.offset_log.list_batches() == list(range(100, 110))
    assert checkpoint.commit_log.list_batches() == list(range(100, 110))


def test_an_error_of_a_task_aside_is_logged(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    threads: list[threading.Thread] = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise LOST

    ObjectStoreFiles(store).run_aside(fail)
    while not threads:
        threading.Event().wait(0.01)
    threads[0].join()
    assert threads[0] is not threading.main_thread()
    assert "were not removed" in caplog.text
