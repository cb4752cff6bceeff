"""The commit log in its three format versions, byte for byte as Spark writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint import CommitLog, CommitMetadata, LocalFiles, LogVersions
from penstock.errors import IncompleteLogError, MalformedLogError, UnsupportedLogVersionError

SINKS = {"s": {"sinkName": "s", "isActive": True}}


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    log = CommitLog(LocalFiles(tmp_path))
    log.make_directory()
    return log


def test_an_entry_is_a_version_and_the_next_watermark(log: CommitLog) -> None:
    data = log.serialize(CommitMetadata(1740823195000))
    assert data == b'v1\n{"nextBatchWatermarkMs":1740823195000}'
    assert log.deserialize(data) == CommitMetadata(1740823195000)


def test_version_2_has_the_ids_of_the_state(log: CommitLog) -> None:
    entry = CommitMetadata(5, {0: (("a",), ("b", "c")), 1: ()}, version=2)
    data = log.serialize(entry)
    assert data.decode() == (
        'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["a"],["b","c"]],"1":[]}}'
    )
    assert log.deserialize(data) == entry


def test_version_3_has_the_sinks(log: CommitLog) -> None:
    entry = CommitMetadata(5, None, SINKS, version=3)
    data = log.serialize(entry)
    assert data.decode() == (
        'v3\n{"nextBatchWatermarkMs":5,"sinkMetadataMap":{"s":{"sinkName":"s","isActive":true}}}'
    )
    assert log.deserialize(data) == entry


def test_a_version_that_cannot_hold_the_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1 cannot hold"):
        CommitMetadata(0, {0: (("a",),)})
    with pytest.raises(ValueError, match="version 2 cannot hold"):
        CommitMetadata(0, None, SINKS, version=2)
    with pytest.raises(ValueError, match="version 4 cannot hold"):
        CommitMetadata(version=4)
    with pytest.raises(MalformedLogError, match="requires a non-empty sinkMetadataMap"):
        CommitMetadata(version=3)


def test_fields_of_later_versions_in_version_1_are_ignored(log: CommitLog) -> None:
    data = b'v1\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"]]}}'
    assert log.deserialize(data) == CommitMetadata(7)


def test_an_entry_of_an_old_spark_without_watermark_reads_as_zero(log: CommitLog) -> None:
    assert log.deserialize(b"v1\n{}") == CommitMetadata(0)
    assert log.deserialize(b"v1") == CommitMetadata(0)
    assert log.deserialize(b" v1 \n{}") == CommitMetadata(0)
    assert log.deserialize(b"v2\n{}") == CommitMetadata(0, version=2)


def test_an_empty_file_is_incomplete(log: CommitLog) -> None:
    with pytest.raises(IncompleteLogError, match="Incomplete log file in the offset commit log"):
        log.deserialize(b"")


def test_a_wrong_version_line_is_malformed(log: CommitLog) -> None:
    with pytest.raises(MalformedLogError, match="failed to read correct log version from x"):
        log.deserialize(b"x\n{}")
    with pytest.raises(UnsupportedLogVersionError, match=r"is v3, but encountered v4"):
        log.deserialize(b"v4\n{}")


@pytest.mark.parametrize(
    "data",
    [
        b"v1\nnot json",
        b'v1\n{"nextBatchWatermarkMs":1.5}',
        b'v2\n{"stateUniqueIds":{"zero":[]}}',
        b'v2\n{"stateUniqueIds":{"0":7}}',
        b'v2\n{"sinkMetadataMap":{"s":{}}}',
        b"v3\n{}",
    ],
)
def test_the_error_for_a_malformed_entry_has_its_file(
    log: CommitLog, tmp_path: Path, data: bytes
) -> None:
    LocalFiles(tmp_path).create_if_absent("commits/0", data)
    with pytest.raises(MalformedLogError, match="Failed to read log file"):
        log.get(0)


def test_a_version_other_than_the_only_one_is_refused(tmp_path: Path) -> None:
    log = CommitLog(LocalFiles(tmp_path), versions=LogVersions(only_commits=2))
    with pytest.raises(UnsupportedLogVersionError) as caught:
        log.deserialize(b"v1\n{}")
    assert str(caught.value) == (
        "[INVALID_LOG_VERSION.EXACT_MATCH_VERSION] UnsupportedLogVersion. The only supported log "
        "version is v2, but encountered v1. SQLSTATE: KD002"
    )
