"""`verify` finds state, and metadata of stateful operators, that a restart cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.checkpoint.tools.findings import Severity
from penstock.checkpoint.tools.targets import possible_targets
from penstock.checkpoint.tools.view import CheckpointView
from tests.checkpoint.tools.checkpoints import (
    forbid_reading,
    state_version,
    stateful,
    stateless,
    write,
)
from tests.checkpoint.tools.verifying import rocks_zip, the_finding, verified


@pytest.mark.parametrize("provider", ["hdfs", "rocksdb"])
def test_missing_state_is_an_error_with_a_rewind_as_remedy(checkpoint: Path, provider: str) -> None:
    stateful(checkpoint, provider=provider)
    (checkpoint / f"state/0/1/4.{'delta' if provider == 'hdfs' else 'changelog'}").unlink()
    finding = the_finding(checkpoint, "state/0/1")
    assert "CANNOT_LOAD_STATE_STORE" in finding.spark
    assert "--to 2" in finding.remedy


def test_state_of_a_partition_that_was_never_written_is_missed(checkpoint: Path) -> None:
    stateful(checkpoint)
    for path in (checkpoint / "state/0/1").iterdir():
        path.unlink()
    (checkpoint / "state/0/1").rmdir()
    assert not verified(checkpoint).will_restart


def test_an_operator_below_another_one_whose_state_is_gone_is_missed(checkpoint: Path) -> None:
    """Operators are numbered from 0, so the directory of another one tells that it existed."""
    stateful(checkpoint)
    (checkpoint / "state/0").rename(checkpoint / "state/1")
    finding = the_finding(checkpoint, "state/0")
    assert finding.severity is Severity.ERROR
    assert "CANNOT_READ_DELTA_FILE_NOT_EXISTS" in finding.spark
    assert possible_targets(CheckpointView(checkpoint)) == []


def test_operators_of_the_commit_log_whose_state_is_gone_are_missed(checkpoint: Path) -> None:
    stateless(checkpoint)
    ids = '{"0":[["a"],["b"]],"1":[["c"],["d"]]}'
    for batch in range(4):
        text = f'v2\n{{"nextBatchWatermarkMs":{batch * 10 + 10},"stateUniqueIds":{ids}}}'
        write(checkpoint / f"commits/{batch}", text)
    for place in ("state/0", "state/1"):
        assert "CANNOT_READ_STREAMING_STATE_FILE" in the_finding(checkpoint, place).spark
    assert possible_targets(CheckpointView(checkpoint)) == []


def test_an_operator_may_be_missing_before_the_first_commit(checkpoint: Path) -> None:
    """The tasks of batch 0 create the directories, in any order."""
    stateless(checkpoint, 0, planned=True)
    state_version(checkpoint, 0, 1, "delta")
    (checkpoint / "state/0").rename(checkpoint / "state/1")
    assert verified(checkpoint).will_restart


def test_a_directory_with_a_large_number_below_state_is_reported(checkpoint: Path) -> None:
    stateful(checkpoint)
    write(checkpoint / "state/1731801600000/0/1.delta", "x")
    assert not verified(checkpoint).will_restart


def test_state_after_the_newest_batch_is_an_error_with_a_rewind_as_remedy(checkpoint: Path) -> None:
    """The result of deleting log entries by hand, as Spark's error message advises."""
    stateful(checkpoint, 6)
    state_version(checkpoint, 0, 6, "snapshot")
    for batch in (4, 5):
        for name in (f"offsets/{batch}", f"commits/{batch}"):
            (checkpoint / name).unlink()
    finding = the_finding(checkpoint, "state/0/0/6.snapshot")
    assert "silently wrong" in finding.spark
    assert "rewind" in finding.remedy
    assert "--to 3" in finding.remedy


def test_the_state_of_a_planned_batch_is_not_ahead(checkpoint: Path) -> None:
    stateful(checkpoint, planned=True)
    state_version(checkpoint, 0, 5, "snapshot")
    assert verified(checkpoint).will_restart


def test_state_without_any_batch_is_an_error(checkpoint: Path) -> None:
    state_version(checkpoint, 0, 1, "delta")
    assert "should be empty on batch 0" in the_finding(checkpoint, "state").spark


def test_a_snapshot_whose_table_is_gone_is_an_error(checkpoint: Path) -> None:
    stateful(checkpoint, provider="rocksdb")
    rocks_zip(checkpoint / "state/0/0/4.zip", "000009-x.sst")
    assert "SSTs/000009-x.sst" in the_finding(checkpoint, "state/0/0/4.zip").problem
    write(checkpoint / "state/0/0/SSTs/000009-x.sst", "table")
    assert verified(checkpoint).will_restart


def test_a_snapshot_that_is_no_archive_is_an_error(checkpoint: Path) -> None:
    stateful(checkpoint, provider="rocksdb")
    write(checkpoint / "state/0/0/4.zip", "not a zip")
    assert "cannot be read" in the_finding(checkpoint, "state/0/0/4.zip").problem


@pytest.mark.parametrize("exists", [True, False])
def test_the_schema_path_of_a_copied_checkpoint_is_found(
    checkpoint: Path, tmp_path: Path, exists: bool
) -> None:
    stateful(checkpoint)
    schema = tmp_path / "other/state/0/_stateSchema/default/0_x"
    if exists:
        write(schema, "schema")
    text = json.dumps({"stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{schema}"]}]})
    write(checkpoint / "state/0/_metadata/v2/0", f"v2\n{text}")
    finding = the_finding(checkpoint, "state/0/_metadata/v2/0")
    assert finding.severity is (Severity.WARNING if exists else Severity.ERROR)
    assert "fork" in finding.remedy


@pytest.mark.parametrize("name", ["metadata", "v2/0"])
@pytest.mark.parametrize("text", ["", "v2", 'v2\n{"stateSchemaFilePaths":["file:/a"b"]}', "v2\n[]"])
def test_metadata_of_an_operator_that_cannot_be_parsed_is_found(
    checkpoint: Path, name: str, text: str
) -> None:
    stateful(checkpoint)
    write(checkpoint / "state/0/_metadata" / name, text)
    finding = the_finding(checkpoint, f"state/0/_metadata/{name}")
    assert finding.severity is Severity.WARNING
    assert "The metadata of the operator is not" in finding.problem
    assert "Error reading metadata path for stateful operator" in finding.spark


@pytest.mark.parametrize("name", ["metadata", "v2/0"])
def test_metadata_of_an_operator_that_may_not_be_read_is_kept(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stateful(checkpoint)
    path = write(checkpoint / "state/0/_metadata" / name, "v2\n{}")
    forbid_reading(monkeypatch, path)
    finding = the_finding(checkpoint, f"state/0/_metadata/{name}")
    assert finding.severity is Severity.WARNING
    assert "Permission denied" in finding.problem
    assert finding.remedy.startswith(f"keep {path}, make it readable")
