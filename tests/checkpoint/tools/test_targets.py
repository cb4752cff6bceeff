"""The possible targets of a rewind after a change of sources."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.tools import backup, source_surgery, surgery
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import (
    age,
    commit_text,
    content_of,
    offsets_text,
    stateless,
    two_sources,
    write,
)

META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
Command = Callable[[CheckpointView], Plan]

every_change_of_sources = pytest.mark.parametrize(
    "command",
    [
        source_surgery.add_source,
        lambda view: source_surgery.add_source(view, "0"),
        lambda view: source_surgery.remove_source(view, "0"),
        lambda view: source_surgery.remove_source(view, "1"),
        lambda view: source_surgery.reorder_sources(view, [1, 0]),
    ],
    ids=["add", "add-first", "remove-first", "remove-last", "reorder"],
)


def apply(root: Path, command: Command) -> None:
    backup.apply(root, command(CheckpointView(root)))


def targets(root: Path) -> tuple[int, ...]:
    return inspect(CheckpointView(root)).rewind_targets


def go_on(root: Path, batch: int, *, planned: bool = False) -> None:
    """Add a batch in which no source has new data."""
    write(root / f"offsets/{batch}", (root / f"offsets/{batch - 1}").read_bytes())
    if not planned:
        write(root / f"commits/{batch}", commit_text())
    age(root)


@every_change_of_sources
def test_a_rewind_to_before_a_change_of_sources_is_refused(
    checkpoint: Path, command: Command
) -> None:
    """Older entries belong to other sources, whose own files were moved by the change."""
    two_sources(checkpoint, 4)
    apply(checkpoint, command)
    go_on(checkpoint, 4)
    before = content_of(checkpoint)
    assert targets(checkpoint) == (3, 4)
    for batch in range(3):
        with pytest.raises(SurgeryRefusedError, match=r"-source.* at batch 3.*undo.* batches: 3"):
            surgery.rewind(CheckpointView(checkpoint), batch)
    assert content_of(checkpoint) == before
    apply(checkpoint, lambda view: surgery.rewind(view, 3))
    assert verify(CheckpointView(checkpoint)).will_restart


@every_change_of_sources
def test_a_change_that_was_undone_does_not_matter(checkpoint: Path, command: Command) -> None:
    two_sources(checkpoint, 4)
    apply(checkpoint, command)
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert targets(checkpoint) == (0, 1, 2, 3)


@every_change_of_sources
def test_the_files_of_changed_sources_are_left_out(checkpoint: Path, command: Command) -> None:
    """The files in `sources/0` may now belong to another source."""
    two_sources(checkpoint, 4)
    apply(checkpoint, command)
    for batch in range(3):
        assert inspect_batch(CheckpointView(checkpoint), batch).files == {}
    assert inspect_batch(CheckpointView(checkpoint), 3).files


def test_both_entries_of_a_short_log_are_rewritten(checkpoint: Path) -> None:
    two_sources(checkpoint, 2)
    apply(checkpoint, source_surgery.add_source)
    apply(checkpoint, lambda view: surgery.rewind(view, 0))
    assert verify(CheckpointView(checkpoint)).findings == ()


def test_a_planned_batch_of_new_sources_is_not_planned_anew(checkpoint: Path) -> None:
    """The entries before it belong to different sources. It can be skipped."""
    two_sources(checkpoint, 3)
    go_on(checkpoint, 3, planned=True)
    apply(checkpoint, source_surgery.add_source)
    with pytest.raises(SurgeryRefusedError, match=r"add-source .* at batch 3"):
        surgery.replan(CheckpointView(checkpoint))
    apply(checkpoint, surgery.skip)
    assert verify(CheckpointView(checkpoint)).will_restart


@every_change_of_sources
def test_a_fork_goes_no_further_back(checkpoint: Path, tmp_path: Path, command: Command) -> None:
    two_sources(checkpoint, 5)
    apply(checkpoint, command)
    age(checkpoint)
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert targets(tmp_path / "fork") == targets(checkpoint) == (4,)
    assert verify(CheckpointView(made.path)).findings == ()


def test_another_number_of_sources_is_found_in_the_entries(checkpoint: Path) -> None:
    two_sources(checkpoint, 4)
    apply(checkpoint, source_surgery.add_source)
    shutil.rmtree(checkpoint / ".penstock")
    assert targets(checkpoint) == (3,)
    with pytest.raises(SurgeryRefusedError, match=r"offsets/1 has the sources 0, 1;.* 0, 1, 2\."):
        surgery.rewind(CheckpointView(checkpoint), 2)


def test_a_newest_entry_of_other_sources_does_not_prevent_a_rewind(checkpoint: Path) -> None:
    """A restart would fail on it; a rewind to an older batch helps."""
    stateless(checkpoint)
    write(checkpoint / "offsets/3", offsets_text(['{"logOffset":3}', "-"]))
    assert not verify(CheckpointView(checkpoint)).will_restart
    apply(checkpoint, lambda view: surgery.rewind(view, 2))
    assert verify(CheckpointView(checkpoint)).will_restart


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        (["a:1"], ["a:1", "b:1"], (0, 1, 2, 3)),
        (["a:1", "b:1"], ["a:1"], (0, 1, 2, 3)),
        (["0:1"], ["0:1", "1:1"], (0, 1, 2, 3)),
        (["0:1", "1:1"], ["0:1"], (3,)),
    ],
    ids=["named-more", "named-fewer", "numbered-more", "numbered-fewer"],
)
def test_a_source_with_a_name_may_be_missing(
    checkpoint: Path, older: list[str], newer: list[str], expected: tuple[int, ...]
) -> None:
    """An entry does not have sources without an offset, and names that the query no longer has are
    ignored; only numbers must be those of existing sources."""
    stateless(checkpoint)
    for batch, sources in enumerate([older, older, newer, newer]):
        write(checkpoint / f"offsets/{batch}", "\n".join(["v2", META, *sources]))
    assert targets(checkpoint) == expected
