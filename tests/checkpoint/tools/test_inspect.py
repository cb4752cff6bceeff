"""The content of `show` and `diff`, for constructed checkpoints and for Spark's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.tools.compare import compare
from penstock.checkpoint.tools.inspect import inspect, inspect_batch
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import CheckpointError, MissingBatchError
from tests.checkpoint.tools.checkpoints import (
    QUERY_ID,
    file_entry,
    offsets_text,
    state_version,
    stateful,
    stateless,
    two_sources,
    write,
)

GOLDEN = Path(__file__).parents[2] / "golden"


def test_a_checkpoint_with_state(checkpoint: Path) -> None:
    stateful(checkpoint, 4, planned=True)
    report = inspect(CheckpointView(checkpoint))
    assert report.query_id == QUERY_ID
    assert (report.next_batch, report.is_planned) == (4, True)
    assert [(b.id, b.status) for b in report.batches][-2:] == [(3, "committed"), (4, "planned")]
    assert report.batches[3].moved == {"0": "+1"}
    assert report.batches[3].watermark_ms == 30
    assert report.batches[3].next_watermark_ms == 40
    assert report.settings == {"spark.sql.shuffle.partitions": "2"}
    (source,) = report.sources
    assert (source.kind, source.offset, source.moved) == ("files", '{"logOffset":4}', "+1")
    (operator,) = report.operators
    assert (operator.name, operator.provider, operator.partitions) == (
        "stateStoreSave",
        "HDFS-backed",
        2,
    )
    assert operator.versions == (1, 2, 3, 4)
    assert report.rewind_targets == (0, 1, 2, 3)
    assert {part.name for part in report.sizes} == {"commits", "offsets", "sources", "state"}


def test_the_readable_part_of_a_damaged_checkpoint_is_shown(checkpoint: Path) -> None:
    stateless(checkpoint)
    write(checkpoint / "offsets/3", "garbage")
    (checkpoint / "metadata").write_text("{")
    report = inspect(CheckpointView(checkpoint))
    assert report.query_id is None
    assert report.batches[3].status == "unreadable"
    assert "failed to read correct log version" in (report.batches[3].problem or "")
    assert report.sources == ()


def test_versions_are_those_that_every_store_can_load(checkpoint: Path) -> None:
    stateful(checkpoint)
    (checkpoint / "state/0/1/1.delta").unlink()
    state_version(checkpoint, 1, 3, "snapshot")
    (operator,) = inspect(CheckpointView(checkpoint)).operators
    assert operator.versions == (3, 4)


def test_stores_of_a_join_have_names(checkpoint: Path) -> None:
    stateless(checkpoint, 1)
    for partition in range(2):
        for store in ("left-keyToNumValues", "right-keyToNumValues"):
            write(checkpoint / f"state/0/{partition}/{store}/1.delta", "x")
    (operator,) = inspect(CheckpointView(checkpoint)).operators
    assert operator.stores == ("left-keyToNumValues", "right-keyToNumValues")
    assert operator.name is None


def test_the_details_of_one_batch(checkpoint: Path) -> None:
    detail = inspect_batch(CheckpointView(stateful(checkpoint)), 2)
    assert detail.start == {"0": '{"logOffset":1}'}
    assert detail.batch.offsets == {"0": '{"logOffset":2}'}
    assert detail.files == {"0": ("hdfs://store/data/2.txt",)}
    assert (detail.reads_state_version, detail.writes_state_version) == (2, 3)
    assert detail.reads_state_missing == detail.writes_state_missing == ()
    assert detail.commit == {"nextBatchWatermarkMs": 30}
    assert json.loads(json.dumps(detail.to_dict()))["batch"]["plannedAtMs"] == 1002


def test_the_files_of_a_compacted_batch_are_its_own(checkpoint: Path) -> None:
    stateless(checkpoint, 3)
    (checkpoint / "sources/0/2").unlink()
    compacted = "\n".join(["v1", *map(file_entry, range(3))])
    write(checkpoint / "sources/0/2.compact", compacted)
    detail = inspect_batch(CheckpointView(checkpoint), 2)
    assert detail.files == {"0": ("hdfs://store/data/2.txt",)}


def test_the_files_of_a_batch_are_left_out_if_its_start_is_purged(checkpoint: Path) -> None:
    stateless(checkpoint)
    for batch in range(2):
        (checkpoint / f"offsets/{batch}").unlink()
    detail = inspect_batch(CheckpointView(checkpoint), 2)
    assert (detail.start, detail.files) == (None, {})
    assert inspect_batch(CheckpointView(checkpoint), 3).files == {"0": ("hdfs://store/data/3.txt",)}


def test_the_first_batch_starts_at_the_beginning(checkpoint: Path) -> None:
    detail = inspect_batch(CheckpointView(stateless(checkpoint)), 0)
    assert detail.files == {"0": ("hdfs://store/data/0.txt",)}


def test_files_are_found_in_the_log_they_were_compacted_into(checkpoint: Path) -> None:
    stateless(checkpoint)
    for name in ("1", "2", "3"):
        (checkpoint / "sources/0" / name).unlink()
    write(checkpoint / "sources/0/3.compact", "\n".join(["v1", *map(file_entry, range(4))]))
    for batch in range(4):
        detail = inspect_batch(CheckpointView(checkpoint), batch)
        assert detail.files == {"0": (f"hdfs://store/data/{batch}.txt",)}


def test_files_that_no_log_has_are_left_out_rather_than_empty(checkpoint: Path) -> None:
    stateless(checkpoint)
    (checkpoint / "sources/0/2").unlink()
    assert inspect_batch(CheckpointView(checkpoint), 2).files == {}
    write(checkpoint / "sources/0/2", "garbage")
    assert inspect_batch(CheckpointView(checkpoint), 2).files == {}


def test_a_missing_batch_is_an_error(checkpoint: Path) -> None:
    with pytest.raises(MissingBatchError, match="no batch 9; it has 0 to 3"):
        inspect_batch(CheckpointView(stateless(checkpoint)), 9)


@pytest.mark.parametrize(
    "location",
    ["hdfs://host/checkpoint", "viewfs:///checkpoint", "hdfs:/checkpoint", "s3:/bucket/checkpoint"],
)
def test_other_file_systems_are_not_read(location: str) -> None:
    with pytest.raises(CheckpointError, match="not a local path"):
        CheckpointView(location)


def test_a_file_uri_is_a_local_path(checkpoint: Path) -> None:
    stateless(checkpoint)
    assert CheckpointView(f"file://{checkpoint}").root == checkpoint


def test_a_directory_with_a_colon_in_its_name_is_local(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stateless(checkpoint)
    checkpoint.rename(tmp_path / "a:")
    (tmp_path / "a:/offsets/3").unlink()
    monkeypatch.chdir(tmp_path)
    assert CheckpointView("a:/").newest_batch == 2


def test_a_directory_of_other_things_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        CheckpointView(tmp_path)
    with pytest.raises(CheckpointError, match="There is no directory"):
        CheckpointView(tmp_path / "missing")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("spark-*/*")), ids=lambda p: p.name)
def test_checkpoints_of_every_version_are_shown(path: Path) -> None:
    report = inspect(CheckpointView(path))
    assert report.query_id
    assert report.batches
    assert all(batch.status == "committed" for batch in report.batches)
    assert all(batch.planned_at_ms for batch in report.batches)
    assert json.dumps(report.to_dict())


def test_two_checkpoints_are_compared(checkpoint: Path, tmp_path: Path) -> None:
    stateful(checkpoint)
    other = stateful(tmp_path / "other", 3)
    write(other / "metadata", '{"id":"11111111-2222-4333-8444-555555555555"}')
    write(other / "offsets/1", offsets_text(['{"logOffset":7}'], 10, 1001))
    found = {
        d.subject: (d.left, d.right) for d in compare(*map(CheckpointView, (checkpoint, other)))
    }
    assert found["next batch"] == ("4", "3")
    assert found["batch 3"] == ("committed", None)
    assert found["batch 1 source 0"] == ('{"logOffset":1}', '{"logOffset":7}')
    assert found["state operator 0 versions"] == ("1 to 4", "1 to 3")
    assert "query id" in found


def test_a_checkpoint_does_not_differ_from_itself(checkpoint: Path) -> None:
    view = CheckpointView(two_sources(checkpoint))
    assert compare(view, view) == []
