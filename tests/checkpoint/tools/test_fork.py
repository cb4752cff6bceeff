"""A fork is an independent checkpoint; the original is only read."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork, fork_before
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import content_of, names_in, stateful, stateless, write


def test_a_fork_differs_in_its_query_id_only(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    before = content_of(checkpoint)
    made = fork(CheckpointView(checkpoint), tmp_path / "below" / "fork")
    assert (made.at, made.next_batch) == (None, 4)
    differences = compare(CheckpointView(checkpoint), CheckpointView(made.path))
    assert [d.subject for d in differences] == ["query id"]
    assert verify(CheckpointView(made.path)).findings == ()
    assert content_of(checkpoint) == before


def test_a_fork_at_a_batch_is_rewound(checkpoint: Path, tmp_path: Path) -> None:
    made = fork(CheckpointView(stateful(checkpoint)), tmp_path / "fork", at=1)
    assert names_in(made.path, "offsets") == ["0", "1"]
    assert names_in(made.path, "state/0/0") == ["1.delta", "2.delta"]
    assert not (made.path / ".penstock").exists()
    assert verify(CheckpointView(made.path)).findings == ()


@pytest.mark.parametrize("part", ["state", "offsets", "sources/0"])
def test_targets_of_links_are_copied(checkpoint: Path, tmp_path: Path, part: str) -> None:
    """For example if the state is on a larger disk."""
    stateful(checkpoint)
    elsewhere = tmp_path / "large disk"
    (checkpoint / part).rename(elsewhere)
    (checkpoint / part).symlink_to(elsewhere)
    before, there = content_of(checkpoint), content_of(elsewhere)
    for batch in (0, 2):
        copy = tmp_path / f"before {batch}"
        fork_before(CheckpointView(checkpoint), copy, batch)
        assert not any(path.is_symlink() for path in copy.rglob("*"))
        assert CheckpointView(copy).next_batch == batch
    assert content_of(elsewhere) == there
    assert content_of(checkpoint) == before


def test_a_fork_within_what_a_link_leads_to_holds_no_copy_of_itself(
    checkpoint: Path, tmp_path: Path
) -> None:
    stateful(checkpoint)
    (checkpoint / "state").rename(tmp_path / "state")
    (checkpoint / "state").symlink_to(tmp_path / "state")
    made = fork(CheckpointView(checkpoint), tmp_path / "state/fork")
    assert names_in(made.path, "state") == ["0"]


@pytest.mark.parametrize("batch", [0, 2, 4])
def test_a_fork_before_a_batch_plans_it_next(checkpoint: Path, tmp_path: Path, batch: int) -> None:
    stateless(checkpoint, planned=True)
    write(checkpoint / "sources/1/0", "0\n{}", twin=False)  # a file of another kind of source
    before = content_of(checkpoint)
    made = fork_before(CheckpointView(checkpoint), tmp_path / "fork", batch)
    assert made.next_batch == CheckpointView(made.path).next_batch == batch
    for part in ("offsets", "commits", "sources/0"):
        there = names_in(made.path, part) if (made.path / part).exists() else []
        assert there == [str(number) for number in range(batch)]
    assert names_in(made.path, "sources/1") == ["0"]
    assert content_of(checkpoint) == before


def test_a_fork_before_the_first_batch_has_no_state(checkpoint: Path, tmp_path: Path) -> None:
    made = fork_before(CheckpointView(stateful(checkpoint)), tmp_path / "fork", 0)
    assert CheckpointView(made.path).state.is_empty


def test_a_fork_of_a_running_query_is_made_at_its_newest_commit(
    checkpoint: Path, tmp_path: Path
) -> None:
    stateful(checkpoint, planned=True)
    os.utime(checkpoint / "offsets/4")
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert made.at == 3
    assert "made at batch 3" in made.warnings[-1]


def test_temporary_files_and_backups_are_left_behind(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/.4.x.tmp", "half", twin=False)
    write(checkpoint / ".penstock/lock", "")
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert not (made.path / ".penstock").exists()
    assert not (made.path / "offsets/.4.x.tmp").exists()


def test_the_schema_of_the_state_is_the_forks_own(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    schema = "state/0/_stateSchema/default/0_x"
    write(checkpoint / schema, "schema")
    paths = [f"file:{checkpoint}/{schema}"]
    text = json.dumps({"stateStoreInfo": [{"stateSchemaFilePaths": paths}]})
    write(checkpoint / "state/0/_metadata/v2/0", f"v2\n{text}")
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert f'"file:{made.path}/{schema}"' in (made.path / "state/0/_metadata/v2/0").read_text()
    assert verify(CheckpointView(made.path)).findings == ()


def test_a_schema_that_is_not_local_has_a_warning(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    text = '{"stateSchemaFilePaths":["hdfs://host/x/state/0/_stateSchema/default/0_x"]}'
    write(checkpoint / "state/0/_metadata/v2/0", f"v2\n{text}")
    made = fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert "still refers to the original" in made.warnings[-1]


def test_the_target_may_be_an_empty_directory(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "fork").mkdir()
    assert fork(CheckpointView(stateless(checkpoint)), tmp_path / "fork").next_batch == 4


def test_nothing_is_overwritten(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    write(tmp_path / "taken/file", "precious")
    for place in (tmp_path / "taken", tmp_path / "taken/file", checkpoint / "inside", tmp_path):
        with pytest.raises(SurgeryRefusedError, match=r"not empty|is inside the other"):
            fork(CheckpointView(checkpoint), place)
    assert (tmp_path / "taken/file").read_text() == "precious"


def test_a_file_that_cannot_be_read_is_named(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", source)

    stateless(checkpoint, 1)
    monkeypatch.setattr(shutil, "copy2", refuse)
    with pytest.raises(CheckpointError, match=r"denied: '/.*', and \d+ more such errors\.$"):
        fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint"]


def test_a_fork_that_is_refused_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    with pytest.raises(SurgeryRefusedError):
        fork(CheckpointView(checkpoint), tmp_path / "fork", at=9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint"]
