"""The log with one file per batch, for any kind of entry."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint import LocalFiles, MetadataLog
from penstock.errors import (
    CheckpointError,
    MalformedLogError,
    MissingBatchError,
    UnsupportedLogVersionError,
)
from tests.memory_world.files import MemoryFiles


class TextLog(MetadataLog[str]):
    """A log of strings. Reading a content that is in `errors` raises that error."""

    errors: dict[bytes, Exception]

    def __init__(self, files: MemoryFiles | LocalFiles) -> None:
        super().__init__(files, "log")
        self.errors = {}

    def serialize(self, entry: str) -> bytes:
        return entry.encode()

    def deserialize(self, data: bytes) -> str:
        if data in self.errors:
            raise self.errors[data]
        return data.decode()


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


@pytest.fixture
def log(files: LocalFiles) -> TextLog:
    log = TextLog(files)
    log.make_directory()
    return log


def fill(log: TextLog, *batch_ids: int) -> None:
    for batch_id in batch_ids:
        assert log.add(batch_id, f"entry {batch_id}")


def test_an_added_entry_is_got_back_by_this_and_another_object(
    log: TextLog, files: LocalFiles
) -> None:
    fill(log, 0)
    assert log.get(0) == "entry 0"
    assert TextLog(files).get(0) == "entry 0"


def test_an_entry_never_added_is_none(log: TextLog) -> None:
    assert log.get(0) is None


def test_adding_a_batch_again_is_false_and_changes_nothing(log: TextLog, files: LocalFiles) -> None:
    fill(log, 0)
    assert log.add(0, "other") is False
    assert TextLog(files).add(0, "other") is False
    assert TextLog(files).get(0) == "entry 0"


def test_an_entry_that_another_run_wrote_is_not_overwritten(
    log: TextLog, files: LocalFiles
) -> None:
    fill(log, 0)
    fill(TextLog(files), 1)
    assert log.add(1, "mine") is False
    assert log.get(1) == "entry 1"


def test_the_last_two_entries_are_cached(log: TextLog, files: LocalFiles) -> None:
    fill(log, 0, 1, 2)
    for batch_id in range(3):
        files.delete(f"log/{batch_id}")
    assert log.get(0) is None
    assert log.get(1) == "entry 1"
    assert log.get(2) == "entry 2"


def test_an_entry_that_was_not_added_is_not_cached(log: TextLog, files: LocalFiles) -> None:
    fill(TextLog(files), 0)
    assert log.add(0, "mine") is False
    files.delete("log/0")
    assert log.get(0) is None


def test_batches_are_listed_in_the_order_of_numbers(log: TextLog) -> None:
    fill(log, 10, 9, 2, 0)
    assert log.list_batches() == [0, 2, 9, 10]


def test_an_empty_log_has_no_latest(log: TextLog) -> None:
    assert log.get_latest() is None
    assert log.list_batches() == []


def test_the_latest_is_the_largest_number(
    log: TextLog, caplog: pytest.LogCaptureFixture, files: LocalFiles
) -> None:
    caplog.set_level("INFO")
    fill(log, 9, 10)
    assert TextLog(files).get_latest() == (10, "entry 10")
    assert "Getting latest batch 10" in caplog.text


@pytest.mark.parametrize(
    "name",
    [".3.crc", ".3.0b5.tmp", "3.tmp", "3.compact", "03", "-3", "+3", "three", "3 ", "_3", "٣"],
)
def test_files_that_are_no_batch_are_ignored_and_left(
    log: TextLog, files: LocalFiles, tmp_path: Path, name: str
) -> None:
    fill(log, 0, 1)
    stranger = tmp_path / "log" / name
    stranger.write_text("not an entry")
    fresh = TextLog(files)
    assert fresh.list_batches() == [0, 1]
    assert fresh.get_latest() == (1, "entry 1")
    fresh.purge(100)
    assert stranger.read_text() == "not an entry"


def test_a_directory_with_the_name_of_a_batch_is_ignored(log: TextLog, tmp_path: Path) -> None:
    (tmp_path / "log" / "7").mkdir(parents=True)
    assert log.list_batches() == []


def test_an_entry_that_is_removed_after_the_listing_is_missing(
    log: TextLog, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "list_names", lambda directory: ["5"])
    with pytest.raises(MissingBatchError, match=r"^batch 5 doesn't exist$"):
        log.get_latest()


# Purging.


def test_purge_removes_what_is_before_and_nothing_else(log: TextLog) -> None:
    fill(log, 0, 1, 2, 3)
    log.purge(2)
    assert log.list_batches() == [2, 3]
    assert log.get(1) is None


def test_purge_twice_or_of_nothing_is_fine(log: TextLog) -> None:
    log.purge(3)
    fill(log, 5, 6)
    log.purge(6)
    log.purge(6)
    log.purge(0)
    assert log.list_batches() == [6]


def test_purge_removes_from_memory_as_well(log: TextLog) -> None:
    fill(log, 0, 1)
    log.purge(2)
    assert log.get(1) is None
    assert log.list_batches() == []
    assert log.add(1, "again")


@given(st.sets(st.integers(0, 30)), st.lists(st.integers(0, 31), max_size=4))
def test_purge_is_independent_of_earlier_purges(batches: set[int], purges: list[int]) -> None:
    log = TextLog(MemoryFiles())
    log.make_directory()
    fill(log, *sorted(batches))
    for before in sorted(purges):
        log.purge(before)
        assert log.list_batches() == sorted(b for b in batches if b >= before)


def test_a_purge_of_few_lists_nothing(
    log: TextLog, files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 0, 1, 2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(files, "list_names", None)
        log.purge(1)
        log.purge(2)
    assert log.list_batches() == [2, 3]


def test_purge_may_run_beside_add(log: TextLog) -> None:
    """As in a query, the purged entries are older than the newest ones."""
    may_purge = threading.Semaphore(0)

    def purge() -> None:
        for before in range(0, 90, 7):
            assert may_purge.acquire(timeout=30)
            log.purge(before)

    purging = threading.Thread(target=purge)
    purging.start()
    for batch_id in range(100):
        fill(log, batch_id)
        if batch_id >= 2 and (batch_id - 2) % 7 == 0:
            may_purge.release()
    purging.join(30)
    assert not purging.is_alive()
    log.purge(98)
    assert log.list_batches() == [98, 99]
    assert log.get(99) == "entry 99"


# Read errors.


@pytest.mark.parametrize(
    ("error", "expected", "says"),
    [
        (MalformedLogError("torn"), MalformedLogError, "move it away"),
        (UnsupportedLogVersionError("too new"), UnsupportedLogVersionError, "too new"),
        (ValueError("odd"), MalformedLogError, "odd"),
        (KeyError("absent"), MalformedLogError, "absent"),
        (TypeError("kind"), MalformedLogError, "kind"),
    ],
)
def test_an_entry_that_cannot_be_read_names_its_file(
    log: TextLog, files: LocalFiles, error: Exception, expected: type[Exception], says: str
) -> None:
    files.create_if_absent("log/4", b"bad")
    log.errors[b"bad"] = error
    with pytest.raises(expected, match=says) as caught:
        log.get(4)
    assert type(caught.value) is expected
    assert f"Failed to read log file {log.path(4)}" in str(caught.value)
    assert caught.value.__cause__ is error
    assert files.read("log/4") == b"bad"


def test_another_checkpoint_error_is_not_changed(log: TextLog, files: LocalFiles) -> None:
    files.create_if_absent("log/4", b"bad")
    log.errors[b"bad"] = error = CheckpointError("of its own")
    with pytest.raises(CheckpointError) as caught:
        log.get(4)
    assert caught.value is error
