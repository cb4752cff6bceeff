"""A fork is an independent checkpoint; the original is only read."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.files import CheckpointFiles
from penstock.checkpoint.json_text import to_json
from penstock.checkpoint.paths import CheckpointPath, fresh
from penstock.checkpoint.store_lock import CHANGING
from penstock.checkpoint.stream_metadata import StreamMetadata
from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools import fork as fork_module
from penstock.checkpoint.tools.activity import exclusive
from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.fork import fork, fork_before
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, CheckpointInUseError, SurgeryRefusedError
from tests.checkpoint.tools.buckets import URI, Buckets, Killed, path_at
from tests.checkpoint.tools.checkpoints import (
    content_of,
    forbid_listing,
    names_in,
    stateful,
    stateless,
    write,
)
from tests.checkpoint.tools.plans import every_command


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


@pytest.mark.parametrize("part", ["state", "state/0", "offsets", "sources"])
def test_targets_of_links_are_copied_to_a_store(
    checkpoint: Path, tmp_path: Path, buckets: Buckets, part: str
) -> None:
    stateful(checkpoint)
    fork(CheckpointView(checkpoint), URI)
    (checkpoint / part).rename(tmp_path / "large disk")
    (checkpoint / part).symlink_to(tmp_path / "large disk")
    (checkpoint / part / "circle").symlink_to(checkpoint)
    fork(CheckpointView(checkpoint), f"{URI}-linked")
    assert buckets.all_content(f"{URI}-linked").keys() == buckets.all_content().keys()
    assert verify(CheckpointView(f"{URI}-linked")).findings == ()


def test_a_fork_within_what_a_link_leads_to_holds_no_copy_of_itself(
    checkpoint: Path, tmp_path: Path
) -> None:
    stateful(checkpoint)
    (checkpoint / "state").rename(tmp_path / "state")
    (checkpoint / "state").symlink_to(tmp_path / "state")
    made = fork(CheckpointView(checkpoint), tmp_path / "state/fork")
    assert names_in(made.path, "state") == ["0"]


@pytest.mark.parametrize("in_store", [False, True])
def test_the_root_of_a_volume_can_be_forked(
    checkpoint: Path,
    tmp_path: Path,
    buckets: Buckets,
    monkeypatch: pytest.MonkeyPatch,
    in_store: bool,
) -> None:
    stateful(checkpoint)
    (checkpoint / "lost+found").mkdir()
    forbid_listing(monkeypatch, checkpoint / "lost+found")
    made = fork(CheckpointView(checkpoint), URI if in_store else tmp_path / "fork")
    copy = fresh(made.path)
    assert verify(CheckpointView(copy)).findings == ()
    assert not (copy / "lost+found").exists()


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


@pytest.mark.parametrize("name", ["fork", 'a"b', "a\\b", "a b", "a%20b", "a\nb", "ü"])
@pytest.mark.parametrize("back", [False, True])
def test_the_schema_of_the_state_is_the_forks_own(tmp_path: Path, name: str, back: bool) -> None:
    """Also if the path of the fork, or that of the original, has to be escaped in JSON."""
    here, there = (tmp_path / name, tmp_path / "x") if back else (tmp_path / "x", tmp_path / name)
    stateful(here)
    schema = "state/0/_stateSchema/default/0_x"
    write(here / schema, "schema")
    fields = {"n": 1, "stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{here}/{schema}"]}]}
    write(here / "state/0/_metadata/v2/0", f"v2\n{to_json(fields)}")
    made = fork(CheckpointView(here), there)
    version, _, text = (made.path / "state/0/_metadata/v2/0").read_text().partition("\n")
    uris = {"n": 1, "stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{there}/{schema}"]}]}
    assert (version, json.loads(text)) == ("v2", uris)
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


@every_command
def test_a_partly_changed_checkpoint_is_not_forked(tmp_path: Path, command: Any) -> None:
    """As after a kill, with any number of changes made."""
    number_of_changes = len(command(tmp_path / "plan").changes)
    for made in range(number_of_changes + 1):
        root = tmp_path / str(made)
        plan = command(root)
        begun = backup._begin(root, plan)
        for number, change in enumerate(plan.changes[:made]):
            backup._make(root, change, begun.kept(number))
        with pytest.raises(SurgeryRefusedError, match=r"was interrupted\. Undo it"):
            fork(CheckpointView(root), tmp_path / "fork")
        with pytest.raises(SurgeryRefusedError, match=r"was interrupted\. Undo it"):
            fork_before(CheckpointView(root), tmp_path / "fork", 0)
        assert not (tmp_path / "fork").exists()


def test_a_checkpoint_is_not_forked_while_a_command_changes_it(
    checkpoint: Path, tmp_path: Path
) -> None:
    stateless(checkpoint)
    with (
        exclusive(checkpoint, "rewind --to 1", stopped=False),
        pytest.raises(CheckpointInUseError, match="changed by penstock checkpoint rewind --to 1"),
    ):
        fork(CheckpointView(checkpoint), tmp_path / "fork")
    assert fork(CheckpointView(checkpoint), tmp_path / "fork").next_batch == 4


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("in_store", [False, True])
def test_a_command_during_the_copy_is_noticed(
    checkpoint: Path,
    tmp_path: Path,
    buckets: Buckets,
    monkeypatch: pytest.MonkeyPatch,
    is_killed: bool,
    in_store: bool,
) -> None:
    stateful(checkpoint)
    if in_store:
        buckets.upload(checkpoint)
    root = path_at(URI) if in_store else checkpoint
    copy = fork_module._copy

    def rewind() -> None:
        with exclusive(root, "rewind", stopped=True):
            view = CheckpointView(fresh(root))
            backup.apply(view.root, surgery.rewind(view, 1))

    def copy_during_a_command(view: CheckpointView, draft: CheckpointPath) -> None:
        with suppress(Killed), monkeypatch.context() as patch:
            if is_killed:
                patch.setattr(backup, "_sync_all", _die)
                patch.setattr(backup, "revert", _die)
            rewind()
        copy(view, draft)

    monkeypatch.setattr(fork_module, "_copy", copy_during_a_command)
    with pytest.raises(CheckpointError, match=r"was interrupted|changed by .*(command|rewind)"):
        fork(CheckpointView(root), tmp_path / "fork")
    assert not (tmp_path / "fork").exists()


def test_two_forks_to_the_same_location(
    checkpoint: Path, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found nothing there. The one that is later does not remove the other's copy."""
    stateful(checkpoint)
    free = fork_module._require_free
    done: list[dict[str, bytes]] = []

    def then_fork_from_another_process(root: CheckpointPath, new: CheckpointPath) -> None:
        free(root, new)
        with monkeypatch.context() as patch:
            patch.setattr(fork_module, "_require_free", free)
            fork(CheckpointView(checkpoint), URI)
        done.append(buckets.all_content())

    monkeypatch.setattr(fork_module, "_require_free", then_fork_from_another_process)
    with pytest.raises(SurgeryRefusedError, match="is not empty"):
        fork(CheckpointView(checkpoint), URI, at=1)
    assert [buckets.all_content()] == done
    assert verify(CheckpointView(URI)).findings == ()


def test_a_fork_that_begins_during_another_leaves_it_alone(
    checkpoint: Path, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    stateful(checkpoint)
    write_identity = StreamMetadata.write

    def fork_from_another_process(self: StreamMetadata, files: CheckpointFiles) -> None:
        before = buckets.all_content()
        with pytest.raises(SurgeryRefusedError, match="in use by penstock checkpoint fork"):
            fork(CheckpointView(checkpoint), URI)
        assert buckets.all_content() == before
        write_identity(self, files)

    monkeypatch.setattr(StreamMetadata, "write", fork_from_another_process)
    monkeypatch.setattr(fork_module, "_require_free", lambda root, new: None)
    fork(CheckpointView(checkpoint), URI)
    assert verify(CheckpointView(URI)).findings == ()


@pytest.mark.parametrize("fault", ["fails_at", "loses_at"])
def test_a_fork_with_a_failed_request_is_complete_or_removed(
    checkpoint: Path, buckets: Buckets, fault: str
) -> None:
    stateful(checkpoint, 1)
    fork(CheckpointView(checkpoint), URI)
    complete = buckets.all_content().keys()
    for number in range(buckets.changes):
        setattr(buckets, fault, number)
        with suppress(OSError):
            fork(CheckpointView(checkpoint), f"{URI}-{number}")
        buckets.heal()
        left = buckets.all_content(f"{URI}-{number}").keys() - {CHANGING}
        assert left in (complete, set())


def test_a_link_to_the_original_is_seen_through(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    before = content_of(checkpoint)
    (tmp_path / "link").symlink_to(checkpoint)
    (tmp_path / "other").mkdir()
    view, linked = CheckpointView(checkpoint), CheckpointView(tmp_path / "link")
    roundabout = tmp_path / "other" / ".." / "checkpoint" / "offsets" / "copy"
    for original, place in (
        (view, tmp_path / "link/state/copy"),
        (view, roundabout),
        (linked, checkpoint / "copy"),
    ):
        with pytest.raises(SurgeryRefusedError, match="is inside the other"):
            fork(original, place)
    assert content_of(checkpoint) == before


@pytest.mark.parametrize("exists", [False, True])
def test_the_target_may_be_a_link(checkpoint: Path, tmp_path: Path, exists: bool) -> None:
    stateful(checkpoint)
    place = tmp_path / "large disk" / "fork"
    if exists:
        place.mkdir(parents=True)
    (tmp_path / "link").symlink_to(place)
    made = fork(CheckpointView(checkpoint), tmp_path / "link")
    assert made.path == tmp_path / "link"
    assert names_in(place, "offsets") == ["0", "1", "2", "3"]
    assert (tmp_path / "link").is_symlink()


def test_the_name_of_a_fork_may_be_as_long_as_any(checkpoint: Path, tmp_path: Path) -> None:
    assert fork(CheckpointView(stateless(checkpoint)), tmp_path / ("n" * 255)).next_batch == 4


def test_a_fork_is_durable_before_it_has_its_name(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    unsynced: list[Path] = []
    rename = Path.rename
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))

    def checked(draft: Path, target: Path) -> Path:
        parts = (draft, *draft.rglob("*"))
        unsynced.extend(part for part in parts if part.stat().st_ino not in synced)
        synced.clear()
        return rename(draft, target)

    monkeypatch.setattr(Path, "rename", checked)
    fork(CheckpointView(stateful(checkpoint)), tmp_path / "below" / "fork")
    assert unsynced == []
    assert (tmp_path / "below").stat().st_ino in synced


def _die(*args: object) -> None:
    raise Killed
