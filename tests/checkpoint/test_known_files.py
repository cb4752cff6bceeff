"""No log entry is written after the checkpoint was deleted or replaced during the run."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint import (
    CheckpointDirectory,
    CommitMetadata,
    LocalFiles,
    OffsetSeq,
    OffsetSeqMetadata,
)
from penstock.errors import CheckpointVanishedError


def run(checkpoint: CheckpointDirectory, *batch_ids: int) -> None:
    """Plan and commit batches."""
    for batch_id in batch_ids:
        assert checkpoint.offset_log.add(batch_id, planned(batch_id))
        assert checkpoint.commit_log.add(batch_id, CommitMetadata())


def planned(batch_id: int) -> OffsetSeq:
    return OffsetSeq((str(batch_id),), OffsetSeqMetadata(0, batch_id))


def write_next(checkpoint: CheckpointDirectory, moment: str) -> None:
    if moment == "before the plan":
        checkpoint.offset_log.add(3, planned(3))
    else:
        checkpoint.commit_log.add(3, CommitMetadata())


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def checkpoint(root: Path) -> CheckpointDirectory:
    """A checkpoint with three batches, with state and files of a source."""
    checkpoint = CheckpointDirectory(LocalFiles(root))
    checkpoint.read_or_create_metadata()
    (root / "state" / "0").mkdir(parents=True)
    (root / "sources" / "0").mkdir(parents=True)
    run(checkpoint, 0, 1, 2)
    return checkpoint


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def older_copy(root: Path) -> None:
    (root / "offsets" / "2").unlink()
    (root / "commits" / "2").unlink()


def another_query(root: Path) -> None:
    shutil.rmtree(root)
    other = CheckpointDirectory(LocalFiles(root))
    other.read_or_create_metadata()
    run(other, 0, 1, 2)


def another_plan(root: Path) -> None:
    (root / "offsets" / "2").write_bytes(b"v1\n{}\n7")


def made_again(path: Path) -> None:
    shutil.rmtree(path)
    (path / "0").mkdir(parents=True)


def replaced_by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


LOSSES: dict[str, tuple[Callable[[Path], None], str]] = {
    "all of it": (shutil.rmtree, "metadata is gone"),
    "an empty directory": (empty, "metadata is gone"),
    "an older copy": (older_copy, "offsets/2 is gone"),
    "another query's": (another_query, "metadata is not what this run has read or written"),
    "another plan": (another_plan, "offsets/2 is not what this run has read or written"),
    "the offsets": (lambda root: shutil.rmtree(root / "offsets"), "offsets/2 is gone"),
    "the commits": (lambda root: shutil.rmtree(root / "commits"), "commits/2 is gone"),
    "a file for the commits": (lambda root: replaced_by_a_file(root / "commits"), "commits/2 is"),
    "the id": (lambda root: (root / "metadata").unlink(), "metadata is gone"),
    "the state": (lambda root: shutil.rmtree(root / "state"), "state is gone"),
    "state made again": (lambda root: made_again(root / "state"), "state is not what"),
    "the sources": (lambda root: shutil.rmtree(root / "sources"), "sources is gone"),
    "sources made again": (lambda root: made_again(root / "sources"), "sources is not what"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("moment", ["before the plan", "before the commit"])
def test_nothing_is_written_after_the_checkpoint_was_replaced(
    checkpoint: CheckpointDirectory, root: Path, loss: str, moment: str
) -> None:
    lose, says = LOSSES[loss]
    if moment == "before the commit":
        assert checkpoint.offset_log.add(3, planned(3))
        says = says.replace("offsets/2", "offsets/3") if "is gone" in says else says
        if loss in ("an older copy", "another plan"):
            (root / "offsets" / "3").rename(root / "offsets" / "2")
            says = "offsets/3 is gone"
    lose(root)
    before = contents(root) if root.exists() else None
    with pytest.raises(CheckpointVanishedError) as caught:
        write_next(checkpoint, moment)
    assert f"{root}/{says}" in str(caught.value)
    assert "was there before" in str(caught.value)
    assert (contents(root) if root.exists() else None) == before


def test_nothing_is_held_open_after_the_run(checkpoint: CheckpointDirectory, root: Path) -> None:
    run(checkpoint, 3)
    assert open_below(root) == {root / "sources", root / "state"}
    checkpoint.release()
    assert open_below(root) == set()


def open_below(root: Path) -> set[Path]:
    """The files and directories below `root` that this process has open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(link.readlink())
    return {path for path in found if path.is_relative_to(root)}


def test_a_checkpoint_that_was_moved_away_and_back_is_accepted(
    checkpoint: CheckpointDirectory, root: Path
) -> None:
    root.rename(root.with_name("away"))
    with pytest.raises(CheckpointVanishedError):
        checkpoint.offset_log.add(3, planned(3))
    assert not root.exists()
    root.with_name("away").rename(root)
    run(checkpoint, 3)


def test_a_copy_with_the_same_entries_is_accepted(
    checkpoint: CheckpointDirectory, root: Path
) -> None:
    for log in ("offsets", "commits"):
        shutil.copytree(root / log, root / "copy")
        shutil.rmtree(root / log)
        (root / "copy").rename(root / log)
    run(checkpoint, 3)


def test_a_new_checkpoint_deleted_before_its_first_batch_is_detected(root: Path) -> None:
    checkpoint = CheckpointDirectory(LocalFiles(root))
    checkpoint.read_or_create_metadata()
    assert (root / "offsets").is_dir()
    assert (root / "commits").is_dir()
    (root / "offsets").rmdir()
    with pytest.raises(CheckpointVanishedError, match="offsets is gone"):
        checkpoint.offset_log.add(0, planned(0))
    assert not (root / "offsets").exists()


def test_a_run_expects_what_it_has_read(checkpoint: CheckpointDirectory, root: Path) -> None:
    again = CheckpointDirectory(LocalFiles(root))
    again.read_or_create_metadata()
    assert again.offset_log.get_latest() is not None
    assert again.commit_log.get_latest() is not None
    (root / "commits" / "2").unlink()
    with pytest.raises(CheckpointVanishedError, match="commits/2 is gone"):
        again.offset_log.add(3, planned(3))


def test_what_a_run_has_neither_read_nor_written_is_not_expected(
    checkpoint: CheckpointDirectory, root: Path
) -> None:
    for old in ("offsets/0", "offsets/1", "commits/0", "commits/1", "commits/2"):
        (root / old).unlink()
    again = CheckpointDirectory(LocalFiles(root))
    again.read_or_create_metadata()
    assert again.offset_log.get_latest() is not None
    assert again.commit_log.get_latest() is None
    assert again.commit_log.add(2, CommitMetadata())
    run(again, 3)


def test_what_a_run_has_purged_is_not_expected(checkpoint: CheckpointDirectory) -> None:
    checkpoint.offset_log.purge(2)
    checkpoint.commit_log.purge(2)
    run(checkpoint, 3)
