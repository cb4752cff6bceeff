"""What is checked before a repartitioning, and the files of the draft; without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.lock import hold_for_query
from penstock.checkpoint.own_files import REPARTITION
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.changes import Change, Kind, Plan
from penstock.checkpoint.tools.repartition import check
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import content_of, stateful, stateless, write
from tests.checkpoint.tools.test_state_schema import schema_v2


def rocksdb(root: Path, *, planned: bool = False) -> CheckpointView:
    return CheckpointView(stateful(root, 3, planned=planned, provider="rocksdb"))


def refusal(view: CheckpointView, to: int = 4) -> str:
    with pytest.raises(CheckpointError) as refused:
        check(view, to)
    return str(refused.value)


def test_what_cannot_be_repartitioned_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "no state" in refusal(CheckpointView(stateless(tmp_path / "stateless")))
    assert "HDFS-backed" in refusal(CheckpointView(stateful(tmp_path / "hdfs")))
    planned = refusal(rocksdb(tmp_path / "planned", planned=True))
    assert "Batch 3 is planned" in planned
    assert "replan" in planned
    keyless = rocksdb(tmp_path / "keyless")
    write(tmp_path / "keyless/state/0/0/_metadata/schema", schema_v2())
    assert "no key" in refusal(CheckpointView(keyless.root))


def test_a_repartitioning_that_spark_has_not_finished_is_removed_first(checkpoint: Path) -> None:
    rocksdb(checkpoint, planned=True)
    entry = checkpoint / "offsets/3"
    write(entry, entry.read_text().replace('partitions":"2"', 'partitions":"7"'))
    assert "unfinished repartitioning to 7 partitions" in refusal(CheckpointView(checkpoint))


def test_missing_state_is_refused(checkpoint: Path) -> None:
    rocksdb(checkpoint)
    (checkpoint / "state/0/1/3.changelog").unlink()
    assert "version 3 of the state" in refusal(CheckpointView(checkpoint))


def test_the_same_number_changes_nothing(checkpoint: Path) -> None:
    assert check(rocksdb(checkpoint), 2).expected_plan().changes == ()


def test_the_entry_of_the_new_batch_has_the_new_number_and_the_same_offsets(
    checkpoint: Path,
) -> None:
    plan = check(rocksdb(checkpoint), 5).expected_plan()
    assert [change.path for change in plan.changes] == ["offsets/3", "commits/3"]
    before = (checkpoint / "offsets/2").read_text().splitlines()
    after = (plan.changes[0].content or b"").decode().splitlines()
    assert after[2:] == before[2:]
    conf = json.loads(after[1])
    assert conf.pop("conf") == {"spark.sql.shuffle.partitions": "5"}
    assert conf.items() <= json.loads(before[1]).items()
    assert plan.changes[1].content == (checkpoint / "commits/2").read_bytes()


def test_the_draft_has_links_to_the_state_and_is_removed(checkpoint: Path) -> None:
    view = rocksdb(checkpoint)
    write(checkpoint / "state/0/0/9.changelog", "of an abandoned run")
    before = content_of(checkpoint)
    with check(view, 5).draft() as draft:
        assert draft == checkpoint / REPARTITION
        linked = draft / "state/0/1/3.changelog"
        assert linked.samefile(checkpoint / "state/0/1/3.changelog")
        assert not (draft / "state/0/0/9.changelog").exists()
        assert (draft / "commits/2").exists()
        assert not (draft / "offsets/0").exists()
    assert not draft.exists()
    assert content_of(checkpoint) == before


def test_state_of_an_abandoned_run_is_replaced(checkpoint: Path) -> None:
    view = rocksdb(checkpoint)
    write(checkpoint / "state/0/0/4.changelog", "of an abandoned run")
    before = content_of(checkpoint)
    wanted = check(view, 1)
    with wanted.draft() as draft:
        for change in wanted.expected_plan().changes:
            write(draft / change.path, change.content or b"")
        write(draft / "state/0/0/4.changelog", "new")
        backup.apply(checkpoint, wanted.plan_of(draft))
    assert (checkpoint / "state/0/0/4.changelog").read_text() == "new"
    assert not (checkpoint / "state/0/0/.4.changelog.crc").exists()
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before


def test_incomplete_state_in_the_draft_is_refused(checkpoint: Path) -> None:
    wanted = check(rocksdb(checkpoint), 5)
    with wanted.draft() as draft:
        for change in wanted.expected_plan().changes:
            write(draft / change.path, change.content or b"")
        write(draft / "state/0/4/4.changelog", "state")
        with pytest.raises(SurgeryRefusedError, match="not written all"):
            wanted.plan_of(draft)


def test_a_draft_that_was_left_is_removed_when_a_query_starts(checkpoint: Path) -> None:
    rocksdb(checkpoint)
    write(checkpoint / REPARTITION / "state/0/0/1.changelog", "left")
    lock = hold_for_query(checkpoint, "query")
    assert lock is not None
    lock.release()
    assert not (checkpoint / REPARTITION).exists()


@pytest.mark.parametrize("steps", range(4))
def test_files_from_elsewhere_are_created_and_undone(
    checkpoint: Path, tmp_path: Path, steps: int
) -> None:
    stateful(checkpoint)
    before = content_of(checkpoint)
    large = write(tmp_path / "5.zip", b"\xffbinary", twin=False)
    entry = write(tmp_path / "5", "v1\n{}", twin=False)
    changes = (
        Change(Kind.CREATE, "offsets/5", origin=entry),
        Change(Kind.CREATE, "state/0/7/5.zip", origin=large),
        Change(Kind.CREATE, "state/0/7/SSTs/1.sst", origin=large),
    )
    assert changes[0].diff(checkpoint) == ["+v1", "+{}"]
    assert changes[1].diff(checkpoint) == []
    if steps == len(changes):
        backup.apply(checkpoint, Plan("test", "nothing", changes))
        assert (checkpoint / "state/0/7/SSTs/1.sst").read_bytes() == b"\xffbinary"
    else:  # as after a kill
        begun = backup._begin(checkpoint, Plan("test", "nothing", changes))
        for number, change in enumerate(changes[:steps]):
            backup._make(checkpoint, change, begun.kept(number))
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert content_of(checkpoint) == before
    assert not (checkpoint / "state/0/7").exists()
    assert large.exists()


def test_a_file_that_exists_is_not_overwritten(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    before = content_of(checkpoint)
    new = write(tmp_path / "new", b"new", twin=False)
    plan = Plan("test", "nothing", (Change(Kind.CREATE, "offsets/1", origin=new),))
    with pytest.raises(SurgeryRefusedError, match="created by something else"):
        backup.apply(checkpoint, plan)
    assert content_of(checkpoint) == before
