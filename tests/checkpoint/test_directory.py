"""The checkpoint directory, and the file with the query id."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import penstock.checkpoint
from penstock.checkpoint import (
    CheckpointDirectory,
    CommitMetadata,
    LocalFiles,
    OffsetSeq,
    StreamMetadata,
)
from penstock.errors import (
    CheckpointNotEmptyError,
    ConcurrentUpdateError,
    MalformedLogError,
    MissingMetadataError,
)


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "checkpoint")


@pytest.fixture
def checkpoint(files: LocalFiles) -> CheckpointDirectory:
    return CheckpointDirectory(files)


def test_the_names_of_the_package_are_those_it_lists() -> None:
    for name in penstock.checkpoint.__all__:
        assert hasattr(penstock.checkpoint, name)


# The query id.


def test_a_new_checkpoint_gets_an_id_that_stays(
    checkpoint: CheckpointDirectory, files: LocalFiles
) -> None:
    metadata = checkpoint.read_or_create_metadata()
    assert str(uuid.UUID(metadata.id)) == metadata.id
    assert CheckpointDirectory(files).read_or_create_metadata() == metadata
    assert files.read("metadata") == f'{{"id":"{metadata.id}"}}'.encode()


def test_a_checkpoint_without_metadata_reads_as_none(files: LocalFiles) -> None:
    assert StreamMetadata.read(files) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"id":"not a uuid"}', b'{"id":7}', b'{"id":null}', b"\xff"],
)
def test_the_error_for_metadata_without_an_id_has_a_remedy(files: LocalFiles, data: bytes) -> None:
    files.make_directory("")
    files.create_if_absent("metadata", data)
    with pytest.raises(MalformedLogError, match="Error reading stream metadata from") as caught:
        StreamMetadata.read(files)
    assert files.path("metadata") in str(caught.value)
    assert "Restore it from a backup" in str(caught.value)
    assert files.read("metadata") == data


def test_two_queries_cannot_both_create_a_checkpoint(files: LocalFiles) -> None:
    first, second = StreamMetadata.new(), StreamMetadata.new()
    first.write(files)
    with pytest.raises(ConcurrentUpdateError, match="Multiple streaming queries are concurrently"):
        second.write(files)
    assert StreamMetadata.read(files) == first


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_logs_without_an_id_are_refused(
    checkpoint: CheckpointDirectory, files: LocalFiles, log: str
) -> None:
    files.make_directory(log)
    files.create_if_absent(f"{log}/0", b"whatever")
    with pytest.raises(MissingMetadataError, match="metadata file is missing"):
        checkpoint.read_or_create_metadata()
    assert not files.exists("metadata")


# A new query.


def test_an_empty_directory_is_new(checkpoint: CheckpointDirectory) -> None:
    checkpoint.read_or_create_metadata()
    checkpoint.verify_new()


@pytest.mark.parametrize("part", ["offsets", "commits", "state"])
def test_files_of_an_earlier_query_are_named(
    checkpoint: CheckpointDirectory, files: LocalFiles, part: str
) -> None:
    files.make_directory(part)
    files.create_if_absent(f"{part}/0", b"whatever")
    with pytest.raises(CheckpointNotEmptyError, match="should be empty on batch 0") as caught:
        checkpoint.verify_new()
    assert files.path(part) in str(caught.value)


# The parts.


def test_the_parts_are_where_spark_has_them(
    checkpoint: CheckpointDirectory, files: LocalFiles
) -> None:
    checkpoint.read_or_create_metadata()
    checkpoint.offset_log.add(0, OffsetSeq(("1",)))
    checkpoint.commit_log.add(0, CommitMetadata())
    root = files.root
    assert checkpoint.root == root
    assert checkpoint.state_path == f"{root}/state"
    assert files.exists("offsets/0")
    assert files.exists("commits/0")
