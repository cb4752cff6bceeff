"""A fork of a checkpoint that a query could not continue from says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.checkpoint.tools.fork import fork
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import age, stateful, stateless, write


@pytest.mark.parametrize("text", ["v1\n{", "v9\n{}\n1"], ids=["truncated", "newer"])
@pytest.mark.parametrize("is_recent", [False, True])
def test_a_newest_entry_that_cannot_be_read_has_a_warning(
    checkpoint: Path, tmp_path: Path, text: str, is_recent: bool
) -> None:
    entry = write(stateful(checkpoint, planned=True) / "offsets/4", text)
    if not is_recent:
        age(checkpoint)
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert f"Failed to read log file {entry}" in made.warnings[-1]
    assert ("does not have batch 4" if is_recent else "fails on the copy") in made.warnings[-1]
    assert (made.path / "offsets/4").exists() == (not is_recent)
    at = fork(CheckpointView(checkpoint), tmp_path / "at", at=3)  # the user leaves batch 4 out
    assert len(at.warnings) == 1


@pytest.mark.parametrize("lost", ["offsets/3", "offsets/2", "commits/3"])
def test_what_a_restart_needs_is_missed(checkpoint: Path, tmp_path: Path, lost: str) -> None:
    (stateless(checkpoint) / lost).write_text("")
    age(checkpoint)
    assert lost in fork(CheckpointView(checkpoint), tmp_path / "unreadable").warnings[-1]
    (checkpoint / lost).unlink()
    warnings = fork(CheckpointView(checkpoint), tmp_path / "missing").warnings
    assert any("A query fails on the copy" in w for w in warnings) == lost.startswith("offsets")


@pytest.mark.parametrize("is_recent", [False, True])
def test_commits_without_an_offset_log_are_not_forked(
    checkpoint: Path, tmp_path: Path, is_recent: bool
) -> None:
    shutil.rmtree(stateless(checkpoint) / "offsets")
    if is_recent:
        os.utime(checkpoint / "commits/3")
    with pytest.raises(SurgeryRefusedError, match="batch 3 is committed, but the offset log is"):
        fork(CheckpointView(checkpoint), tmp_path / "fork")
