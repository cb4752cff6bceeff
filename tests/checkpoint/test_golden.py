"""Checkpoints written by Spark are read, and rewritten byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint import CheckpointDirectory, LocalFiles, StreamMetadata
from penstock.checkpoint.metadata_log import MetadataLog

GOLDEN = Path(__file__).parent.parent / "golden"
SPARK = GOLDEN / "spark-4.3.0"


def _entries(log: str) -> list[Path]:
    return sorted(GOLDEN.glob(f"spark-*/*/{log}/*"))


def _named(path: Path) -> str:
    return str(path.relative_to(GOLDEN))


def _rewritten(path: Path, tmp_path: Path, log: str) -> bytes:
    """The file that `add` writes for the entry that `get` has read."""

    def log_in(root: Path) -> MetadataLog[object]:
        checkpoint = CheckpointDirectory(LocalFiles(root))
        chosen: MetadataLog[object]
        chosen = checkpoint.offset_log if log == "offsets" else checkpoint.commit_log  # type: ignore[assignment]  # entries only pass through
        return chosen

    batch_id = int(path.name)
    entry = log_in(path.parent.parent).get(batch_id)
    assert entry is not None
    log_in(tmp_path).make_directory()
    assert log_in(tmp_path).add(batch_id, entry)
    return (tmp_path / log / path.name).read_bytes()


@pytest.mark.parametrize("path", _entries("offsets"), ids=_named)
def test_an_offset_log_entry_is_rewritten_byte_for_byte(path: Path, tmp_path: Path) -> None:
    assert _rewritten(path, tmp_path, "offsets") == path.read_bytes()


@pytest.mark.parametrize("path", _entries("commits"), ids=_named)
def test_a_commit_log_entry_is_rewritten_byte_for_byte(path: Path, tmp_path: Path) -> None:
    assert _rewritten(path, tmp_path, "commits") == path.read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("spark-*/*/metadata")), ids=_named)
def test_the_metadata_file_is_rewritten_byte_for_byte(path: Path, tmp_path: Path) -> None:
    metadata = StreamMetadata.read(LocalFiles(path.parent))
    assert metadata is not None
    metadata.write(LocalFiles(tmp_path))
    assert (tmp_path / "metadata").read_bytes() == path.read_bytes()


def checkpoint_of(query: str) -> CheckpointDirectory:
    return CheckpointDirectory(LocalFiles(SPARK / query))


def test_every_kind_of_entry_is_there() -> None:
    assert {path.name for path in SPARK.iterdir()} >= {
        "stateless",
        "windowed",
        "two-sources",
        "offset-log-v2",
        "named-sources",
        "commit-log-v2",
        "commit-log-v3",
        "commit-log-v3-state",
    }


def test_a_watermark_goes_from_the_commit_into_the_next_batch() -> None:
    checkpoint = checkpoint_of("windowed")
    first, second = checkpoint.commit_log.get(0), checkpoint.offset_log.metadata_of(1)
    assert first is not None
    assert second is not None
    assert first.next_batch_watermark_ms == second.batch_watermark_ms > 0


def test_a_batch_without_data_repeats_the_offsets() -> None:
    log = checkpoint_of("windowed").offset_log
    first, second = log.get(0), log.get(1)
    assert first is not None
    assert second is not None
    assert first.offsets == second.offsets


def test_a_source_without_an_offset_is_a_dash() -> None:
    entry = checkpoint_of("two-sources").offset_log.get(0)
    assert entry is not None
    assert entry.offsets == ('{"logOffset":0}', None)


def test_in_version_2_a_source_without_an_offset_has_no_line() -> None:
    entry = checkpoint_of("offset-log-v2").offset_log.get(0)
    assert entry is not None
    assert (entry.version, entry.source_ids) == (2, ("0",))


def test_sources_may_have_names() -> None:
    entry = checkpoint_of("named-sources").offset_log.get(1)
    assert entry is not None
    assert entry.source_ids == ("orders_a", "orders_b")
    assert entry.metadata is not None
    assert entry.metadata.further == {"sourceMetadataInfo": {}}


def test_commits_may_have_state_ids_and_sinks() -> None:
    with_ids = checkpoint_of("commit-log-v2").commit_log.get(0)
    with_sinks = checkpoint_of("commit-log-v3").commit_log.get(2)
    assert with_ids is not None
    assert with_ids.state_unique_ids is not None
    assert len(with_ids.state_unique_ids[0]) == 2
    assert with_sinks is not None
    assert with_sinks.sinks is not None
    assert [sink["isActive"] for sink in with_sinks.sinks.values()] == [False, True]
