"""Rewind, replan, skip: which files are deleted, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.tools import backup, surgery
from penstock.checkpoint.tools.changes import Kind, Plan
from penstock.checkpoint.tools.targets import possible_targets
from penstock.checkpoint.tools.verify import verify
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.checkpoint.tools.checkpoints import (
    content_of,
    file_entry,
    names_in,
    state_version,
    stateful,
    stateless,
    write,
)


def deleted(plan: Plan) -> list[str]:
    return [c.path for c in plan.changes if c.kind is Kind.DELETE and "/." not in c.path]


def test_rewind_removes_later_batches_newest_first(checkpoint: Path) -> None:
    plan = surgery.rewind(CheckpointView(stateless(checkpoint)), 1)
    assert deleted(plan) == [
        "sources/0/3",
        "sources/0/2",
        "commits/3",
        "offsets/3",
        "commits/2",
        "offsets/2",
    ]


def test_checksum_files_are_deleted_with_their_files(checkpoint: Path) -> None:
    plan = surgery.rewind(CheckpointView(stateless(checkpoint)), 2)
    assert {"offsets/.3.crc", "commits/.3.crc", "sources/0/.3.crc"} <= {
        c.path for c in plan.changes
    }


def test_checksum_files_without_a_file_are_deleted_too(checkpoint: Path) -> None:
    """Spark could not write the entry again while its old checksum file exists."""
    stateless(checkpoint)
    for name in ("offsets/2", "offsets/3", "commits/2", "commits/3", "sources/0/2"):
        (checkpoint / name).unlink()
    backup.apply(checkpoint, surgery.rewind(CheckpointView(checkpoint), 1))
    for log in ("offsets", "commits", "sources/0"):
        assert sorted(p.name for p in (checkpoint / log).iterdir()) == [
            ".0.crc",
            ".1.crc",
            "0",
            "1",
        ]


@pytest.mark.parametrize("kind", ["snapshot", "delta", "zip", "changelog"])
def test_rewind_removes_state_of_later_versions_first(checkpoint: Path, kind: str) -> None:
    """A later snapshot would be loaded instead of the one that the new run writes."""
    stateful(checkpoint)
    for partition in range(2):
        state_version(checkpoint, partition, 4, kind)
    plan = surgery.rewind(CheckpointView(checkpoint), 1)
    assert deleted(plan)[0].startswith("state/")
    assert f"state/0/1/4.{kind}" in deleted(plan)
    backup.apply(checkpoint, plan)
    assert names_in(checkpoint, "state/0/0") == ["1.delta", "2.delta"]
    assert verify(CheckpointView(checkpoint)).will_restart


def test_rewind_keeps_state_files_whose_names_only_look_alike(checkpoint: Path) -> None:
    stateful(checkpoint)
    write(checkpoint / "state/0/0/SSTs/000009-abc.sst", "table")
    plan = surgery.rewind(CheckpointView(checkpoint), 0)
    assert not any("SSTs" in change.path or "_metadata" in change.path for change in plan.changes)


def test_rewind_removes_checksum_files_of_spark(checkpoint: Path) -> None:
    stateful(checkpoint)
    write(checkpoint / "state/0/0/4.delta.crc", '{"algorithm":"CRC32C"}')
    plan = surgery.rewind(CheckpointView(checkpoint), 1)
    assert "state/0/0/4.delta.crc" in deleted(plan)


def test_operator_metadata_of_later_batches_are_deleted_too(checkpoint: Path) -> None:
    stateful(checkpoint)
    for batch in (0, 3):
        write(checkpoint / f"state/0/_metadata/v2/{batch}", "v2\n{}")
    plan = surgery.rewind(CheckpointView(checkpoint), 2)
    assert "state/0/_metadata/v2/3" in deleted(plan)
    assert "state/0/_metadata/v2/0" not in deleted(plan)


def test_rewind_to_the_newest_batch_changes_nothing(checkpoint: Path) -> None:
    assert surgery.rewind(CheckpointView(stateful(checkpoint)), 3).changes == ()


@pytest.mark.parametrize("name", ["offsets/2", "offsets/1", "commits/2"])
def test_rewind_is_refused_without_the_entries_it_needs(checkpoint: Path, name: str) -> None:
    stateless(checkpoint)
    (checkpoint / name).unlink()
    with pytest.raises(SurgeryRefusedError, match="Possible batches: "):
        surgery.rewind(CheckpointView(checkpoint), 2)


def test_rewind_is_refused_without_its_state_in_every_partition(checkpoint: Path) -> None:
    stateful(checkpoint)
    (checkpoint / "state/0/1/1.delta").unlink()
    state_version(checkpoint, 1, 3, "snapshot")
    with pytest.raises(
        SurgeryRefusedError,
        match=r"version 2 .* no longer retained \(state/0/1\).* batches: 2 to 3",
    ):
        surgery.rewind(CheckpointView(checkpoint), 1)


def test_rewind_is_refused_beyond_the_newest_batch(checkpoint: Path) -> None:
    with pytest.raises(SurgeryRefusedError, match="batch 9 doesn't exist"):
        surgery.rewind(CheckpointView(stateless(checkpoint)), 9)


def test_a_compacted_source_log_is_cut_back_as_far_as_it_can_be(checkpoint: Path) -> None:
    stateless(checkpoint)
    log = checkpoint / "sources/0"
    for path in log.iterdir():
        path.unlink()
    write(log / "2.compact", "\n".join(["v1", *map(file_entry, range(3))]))
    write(log / "3", f"v1\n{file_entry(3)}")
    assert "sources/0/3" in deleted(surgery.rewind(CheckpointView(checkpoint), 2))
    with pytest.raises(SurgeryRefusedError, match="oldest entry it can be cut back to is 2"):
        surgery.rewind(CheckpointView(checkpoint), 1)


def test_a_source_log_whose_files_end_with_a_newline_is_cut_back_too(checkpoint: Path) -> None:
    stateless(checkpoint)
    for path in (checkpoint / "sources/0").glob("[0-9]"):
        write(path, path.read_text() + "\n")
    assert verify(CheckpointView(checkpoint)).findings == ()
    assert "sources/0/1" in deleted(surgery.rewind(CheckpointView(checkpoint), 0))


def test_files_of_other_sources_are_left_alone(checkpoint: Path) -> None:
    """Kafka and the rate source store their initial offset in `sources/<n>/0`."""
    stateless(checkpoint)
    for path in (checkpoint / "sources/0").iterdir():
        path.unlink()
    write(checkpoint / "sources/0/0", 'v1\n{"topic":{"0":5}}')
    plan = surgery.rewind(CheckpointView(checkpoint), 0)
    assert not any(change.path.startswith("sources") for change in plan.changes)


def test_the_log_of_a_file_sink_is_cut_back_on_demand(checkpoint: Path, tmp_path: Path) -> None:
    stateless(checkpoint)
    for batch in range(4):
        write(tmp_path / "output/_spark_metadata" / str(batch), 'v1\n{"path":"x"}')
    plan = surgery.rewind(CheckpointView(checkpoint), 1, tmp_path / "output")
    assert str(tmp_path / "output/_spark_metadata/3") in deleted(plan)
    backup.apply(checkpoint, plan)
    assert names_in(tmp_path, "output/_spark_metadata") == ["0", "1"]
    backup.revert(checkpoint, backup.check_undo(checkpoint))
    assert names_in(tmp_path, "output/_spark_metadata") == ["0", "1", "2", "3"]


def test_a_directory_that_is_no_file_sink_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(SurgeryRefusedError, match="not the output of a file sink"):
        surgery.rewind(CheckpointView(stateless(checkpoint)), 1, tmp_path)


def output_with(root: Path, *batches: int) -> Path:
    for batch in batches:
        write(root / "_spark_metadata" / str(batch), 'v1\n{"path":"x"}')
    return root


@pytest.mark.parametrize("operation", ["rewind", "replan"])
def test_an_output_without_later_batches_is_not_said_to_be_cut(
    checkpoint: Path, tmp_path: Path, operation: str
) -> None:
    view = CheckpointView(stateless(checkpoint, 1, planned=True))
    output = output_with(tmp_path / "output", 0)
    rewound = operation == "rewind"
    plan = surgery.rewind(view, 0, output) if rewound else surgery.replan(view, output)
    told = " ".join(plan.warnings)
    assert not any("_spark_metadata" in change.path for change in plan.changes)
    assert "output has no batch after 0, so nothing is cut from it. Is it the output of" in told
    assert "DATA LOSS" in told
    assert "stay on disk" not in told


@pytest.mark.parametrize("to", [0, 1])
def test_an_output_with_newer_batches_than_the_checkpoint_may_be_anothers(
    checkpoint: Path, tmp_path: Path, to: int
) -> None:
    view = CheckpointView(stateless(checkpoint, 2))
    own, ahead = output_with(tmp_path / "own", 0, 1), output_with(tmp_path / "ahead", 0, 1, 2)
    plan = surgery.rewind(view, to, ahead)
    assert f"{ahead}/_spark_metadata/2" in deleted(plan)
    cut, warning = plan.warnings[-2:]
    assert f"data files of {'batches 1 to 2' if to == 0 else 'batch 2'} stay on disk" in cut
    assert "has batch 2, but the newest batch of this checkpoint is 1" in warning
    assert "older copy" in warning
    assert "output of another query, do not cut it" in warning
    assert not any("another query" in text for text in surgery.rewind(view, to, own).warnings)


def test_rewind_warns_of_sinks_that_skip(checkpoint: Path) -> None:
    warnings = " ".join(surgery.rewind(CheckpointView(stateless(checkpoint)), 1).warnings)
    assert "DATA LOSS" in warnings
    assert "batches 2 to 3" in warnings
    assert "--sink" in warnings


def test_replan_drops_the_planned_batch_only(checkpoint: Path) -> None:
    plan = surgery.replan(CheckpointView(stateless(checkpoint, 2, planned=True)))
    assert deleted(plan) == ["sources/0/2", "offsets/2"]


def test_replan_of_the_first_batch_leaves_a_checkpoint_that_can_start(checkpoint: Path) -> None:
    stateful(checkpoint, 0, planned=True)
    state_version(checkpoint, 0, 1, "delta")
    backup.apply(checkpoint, surgery.replan(CheckpointView(checkpoint)))
    CheckpointView(checkpoint).directory.verify_new()
    assert sorted(content_of(checkpoint)) == [".metadata.crc", "metadata"]


def test_replan_of_the_first_batch_deletes_leftovers_in_the_logs(checkpoint: Path) -> None:
    """Newer versions of Spark do not start beside them."""
    stateless(checkpoint, 0, planned=True)
    write(checkpoint / "offsets/.0.abc.tmp", "half")
    write(checkpoint / "commits/.0.abc.tmp", "half")
    backup.apply(checkpoint, surgery.replan(CheckpointView(checkpoint)))
    assert list((checkpoint / "offsets").iterdir()) == []
    assert list((checkpoint / "commits").iterdir()) == []


def test_replan_of_a_later_batch_leaves_what_spark_ignores(checkpoint: Path) -> None:
    stateless(checkpoint, 1, planned=True)
    write(checkpoint / "offsets/.1.abc.tmp", "half")
    assert "offsets/.1.abc.tmp" not in deleted(surgery.replan(CheckpointView(checkpoint)))


def test_there_is_nothing_to_replan_or_skip_after_a_commit(checkpoint: Path) -> None:
    stateless(checkpoint)
    with pytest.raises(SurgeryRefusedError, match="nothing to replan"):
        surgery.replan(CheckpointView(checkpoint))
    with pytest.raises(SurgeryRefusedError, match="nothing to skip"):
        surgery.skip(CheckpointView(checkpoint))


def test_a_planned_batch_far_ahead_of_the_commits_is_left_to_verify(checkpoint: Path) -> None:
    stateless(checkpoint, 4, planned=True)
    (checkpoint / "commits/3").unlink()
    with pytest.raises(SurgeryRefusedError, match="Run penstock checkpoint verify"):
        surgery.replan(CheckpointView(checkpoint))


def test_skip_commits_with_the_watermark_of_the_batch(checkpoint: Path) -> None:
    stateless(checkpoint, 2, planned=True)
    plan = surgery.skip(CheckpointView(checkpoint))
    assert [(c.kind, c.path, c.content) for c in plan.changes] == [
        (Kind.CREATE, "commits/2", b'v1\n{"nextBatchWatermarkMs":20}')
    ]
    assert '{"logOffset":2}' in plan.warnings[0]


def test_skip_keeps_the_sinks_of_the_commit_log(checkpoint: Path) -> None:
    stateless(checkpoint, 1, planned=True)
    sinks = '{"nextBatchWatermarkMs":10,"sinkMetadataMap":{"out":{"sinkName":"out"}}}'
    write(checkpoint / "commits/0", f"v3\n{sinks}")
    plan = surgery.skip(CheckpointView(checkpoint))
    assert plan.changes[0].content == f"v3\n{sinks}".encode()


def test_skip_is_refused_where_state_would_be_missing(checkpoint: Path) -> None:
    stateful(checkpoint, 2, planned=True)
    state_version(checkpoint, 0, 3, "delta")
    with pytest.raises(SurgeryRefusedError, match=r"version 3 .*\(state/0/1\)"):
        surgery.skip(CheckpointView(checkpoint))
    state_version(checkpoint, 1, 3, "delta")
    assert surgery.skip(CheckpointView(checkpoint)).changes


def test_skip_of_the_first_batch_warns_of_state_that_is_not_there_yet(checkpoint: Path) -> None:
    stateless(checkpoint, 0, planned=True)
    plan = surgery.skip(CheckpointView(checkpoint))
    assert any("If this query keeps state, do not skip batch 0" in w for w in plan.warnings)


def test_skip_of_the_first_batch_is_refused_with_a_remedy_that_exists(checkpoint: Path) -> None:
    stateless(checkpoint, 0, planned=True)
    state_version(checkpoint, 0, 1, "delta")
    with pytest.raises(SurgeryRefusedError, match="start the query with a new checkpoint"):
        surgery.skip(CheckpointView(checkpoint))


def test_skip_is_refused_where_commits_name_state_files(checkpoint: Path) -> None:
    stateful(checkpoint, 1, planned=True)
    for partition in range(2):
        state_version(checkpoint, partition, 2, "delta")
    ids = '{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"],["b"]]}}'
    write(checkpoint / "commits/0", f"v2\n{ids}")
    with pytest.raises(SurgeryRefusedError, match="list the ids of its state files"):
        surgery.skip(CheckpointView(checkpoint))


def test_a_version_of_format_2_is_the_one_the_commit_names(checkpoint: Path) -> None:
    stateful(checkpoint, 2)
    for path in (checkpoint / "state/0").glob("[01]/*"):
        path.unlink()
    one, other = "aaaa", "bbbb"
    for partition in range(2):
        for version in (1, 2):
            write(checkpoint / f"state/0/{partition}/{version}_{one}.changelog", "x")
    for batch, unique_id in ((0, one), (1, other)):
        ids = f'{{"nextBatchWatermarkMs":0,"stateUniqueIds":{{"0":[["{unique_id}"],["{one}"]]}}}}'
        write(checkpoint / f"commits/{batch}", f"v2\n{ids}")
    assert possible_targets(CheckpointView(checkpoint)) == [0]


def test_an_empty_log_has_nothing_to_rewind_to(checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    with pytest.raises(SurgeryRefusedError, match="offset log is empty"):
        surgery.rewind(CheckpointView(checkpoint), 0)
