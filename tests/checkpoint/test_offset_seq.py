"""The offset log: Spark's format byte for byte, and the errors for other content."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint import LocalFiles, OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from penstock.errors import IncompleteLogError, MalformedLogError, UnsupportedLogVersionError

CONF = '{"spark.sql.shuffle.partitions":"200"}'
METADATA = f'{{"batchWatermarkMs":0,"batchTimestampMs":1502872590006,"conf":{CONF}}}'


@pytest.fixture
def log(tmp_path: Path) -> OffsetSeqLog:
    log = OffsetSeqLog(LocalFiles(tmp_path))
    log.make_directory()
    return log


def test_an_entry_is_a_version_a_metadata_line_and_one_line_a_source(log: OffsetSeqLog) -> None:
    metadata = OffsetSeqMetadata(0, 1502872590006, {"spark.sql.shuffle.partitions": "200"})
    data = log.serialize(OffsetSeq(("51", None, '{"logOffset":3}'), metadata))
    assert data.decode() == f'v1\n{METADATA}\n51\n-\n{{"logOffset":3}}'
    assert log.deserialize(data) == OffsetSeq(("51", None, '{"logOffset":3}'), metadata)


def test_an_entry_without_metadata_has_an_empty_line(log: OffsetSeqLog) -> None:
    data = log.serialize(OffsetSeq(("51",)))
    assert data == b"v1\n\n51"
    assert log.deserialize(data) == OffsetSeq(("51",), None)


def test_an_entry_without_sources_reads_back(log: OffsetSeqLog) -> None:
    entry = OffsetSeq((), OffsetSeqMetadata(1, 2))
    assert log.deserialize(log.serialize(entry)) == entry


def test_a_file_that_ends_with_a_line_end_has_no_further_offset(log: OffsetSeqLog) -> None:
    assert log.deserialize(b"v1\n\n51\n") == OffsetSeq(("51",))
    assert log.deserialize(b"v1\r\n\r\n51\r\n") == OffsetSeq(("51",))


def test_non_ascii_characters_are_not_escaped(log: OffsetSeqLog) -> None:
    entry = OffsetSeq(('{"topic":"größe"}',), OffsetSeqMetadata(0, 0, {"é": "日本"}))
    data = log.serialize(entry)
    assert "é" in data.decode()
    assert log.deserialize(data) == entry


ONE_LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), min_size=1)
OFFSETS = st.lists(st.none() | ONE_LINE.filter(lambda text: text != "-"), max_size=4)
METADATAS = st.builds(
    OffsetSeqMetadata,
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.dictionaries(ONE_LINE, ONE_LINE, max_size=3),
)


@given(OFFSETS, METADATAS)
def test_every_entry_reads_back_as_it_was(
    offsets: list[str | None], metadata: OffsetSeqMetadata
) -> None:
    log = OffsetSeqLog(LocalFiles("unused"))
    entry = OffsetSeq(tuple(offsets), metadata)
    assert log.deserialize(log.serialize(entry)) == entry


@given(st.dictionaries(ONE_LINE.filter(lambda t: ":" not in t), ONE_LINE, max_size=4), METADATAS)
def test_every_named_entry_reads_back_as_it_was(
    offsets: dict[str, str], metadata: OffsetSeqMetadata
) -> None:
    log = OffsetSeqLog(LocalFiles("unused"))
    texts = tuple(None if offset == "-" else offset for offset in offsets.values())
    entry = OffsetSeq(texts, metadata, tuple(offsets))
    assert log.deserialize(log.serialize(entry)) == entry


def test_an_offset_of_two_lines_is_refused_before_it_is_written(log: OffsetSeqLog) -> None:
    for offset in ("{\n}", "1\r"):
        with pytest.raises(ValueError, match="one line of JSON"):
            log.add(0, OffsetSeq((offset,)))
    assert log.list_batches() == []


# Version 2: sources by name.


def test_an_entry_with_names_is_of_version_2(log: OffsetSeqLog) -> None:
    entry = OffsetSeq(("51", None), OffsetSeqMetadata(), ("orders", "users"))
    assert entry.version == 2
    data = log.serialize(entry)
    assert data.decode().startswith("v2\n")
    assert data.decode().endswith("\norders:51\nusers:-")
    assert log.deserialize(data) == entry


def test_a_name_ends_at_the_first_colon(log: OffsetSeqLog) -> None:
    entry = log.deserialize(b'v2\n{}\norders:{"a":1}')
    assert entry.source_ids == ("orders",)
    assert entry.offsets == ('{"a":1}',)


def test_further_metadata_of_version_2_is_kept_as_it_is() -> None:
    text = '{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{},"sourceMetadataInfo":{"a":[1]}}'
    metadata = OffsetSeqMetadata.from_json(text)
    assert metadata.further == {"sourceMetadataInfo": {"a": [1]}}
    assert metadata.json == text


def test_an_entry_with_names_needs_as_many_as_offsets() -> None:
    with pytest.raises(ValueError, match="2 offsets for 1 source ids"):
        OffsetSeq(("1", "2"), None, ("a",))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"v2\n\na:1", "VERSION_2 offset log requires metadata"),
        (b"v2\n{}\nno colon", "Invalid OffsetMap format: no colon"),
    ],
)
def test_a_malformed_entry_of_version_2_says_why(log: OffsetSeqLog, data: bytes, says: str) -> None:
    with pytest.raises(MalformedLogError, match=says):
        log.deserialize(data)


# Files that cannot be read.


def test_an_empty_file_is_an_incomplete_log_file(log: OffsetSeqLog, tmp_path: Path) -> None:
    LocalFiles(tmp_path).create_if_absent("offsets/3", b"")
    with pytest.raises(IncompleteLogError, match="Incomplete log file") as caught:
        log.get(3)
    assert str(tmp_path / "offsets" / "3") in str(caught.value)


def test_a_file_that_ends_after_the_version_is_incomplete(log: OffsetSeqLog) -> None:
    with pytest.raises(IncompleteLogError, match="ends after the version line"):
        log.deserialize(b"v1\n")


@pytest.mark.parametrize("line", ["", "1", "x1", "v", "v1x", "v-1", "v0", " v1", "vv1", "{}"])
def test_a_line_that_states_no_version_is_malformed(log: OffsetSeqLog, line: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        log.deserialize(f"{line}\n\n1".encode())
    assert f"failed to read correct log version from {line}." in str(caught.value)


def test_a_version_too_new_says_what_is_the_newest(log: OffsetSeqLog) -> None:
    with pytest.raises(UnsupportedLogVersionError) as caught:
        log.deserialize(b"v3\n{}\n1")
    assert "maximum supported log version is v2, but encountered v3" in str(caught.value)
    assert "You need to upgrade" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"batchWatermarkMs":"0"}', "not a whole number"),
        ('{"batchTimestampMs":true}', "not a whole number"),
        ('{"conf":[]}', "not a map of strings"),
        ('{"conf":{"a":1}}', "not a map of strings"),
    ],
)
def test_a_malformed_metadata_line_says_why(log: OffsetSeqLog, line: str, says: str) -> None:
    with pytest.raises(MalformedLogError, match=says):
        log.deserialize(f"v1\n{line}\n1".encode())


def test_missing_metadata_fields_have_defaults() -> None:
    assert OffsetSeqMetadata.from_json("{}") == OffsetSeqMetadata(0, 0, {})


def test_bytes_that_are_no_text_are_malformed(log: OffsetSeqLog) -> None:
    with pytest.raises(MalformedLogError, match="not UTF-8"):
        log.deserialize(b"v1\n\n\xff\xfe")


# Metadata of other batches, text, names.


def test_metadata_for_another_batch_keep_settings_but_no_fields_of_one_batch() -> None:
    metadata = OffsetSeqMetadata(1, 2, {"a": "b"}, {"c": 1, "controlBatchInfo": {}})
    later = metadata.at(watermark_ms=3, timestamp_ms=4)
    assert later == OffsetSeqMetadata(3, 4, {"a": "b"}, {"c": 1})


def test_the_metadata_of_a_batch_is_none_before_the_first(log: OffsetSeqLog) -> None:
    metadata = OffsetSeqMetadata(1, 2)
    log.add(0, OffsetSeq(("1",), metadata))
    log.add(1, OffsetSeq(("1",)))
    assert log.metadata_of(-1) is None
    assert log.metadata_of(0) == metadata
    assert log.metadata_of(1) is None
    assert log.metadata_of(7) is None


def test_an_entry_shows_its_offsets() -> None:
    assert str(OffsetSeq(("1", None))) == "[1, -]"
    assert str(OffsetSeq(("1", None), None, ("a", "b"))) == "{a: 1, b: -}"


def test_a_source_is_called_by_its_id_or_else_its_position() -> None:
    assert OffsetSeq(("1", None)).source_names == ("0", "1")
    assert OffsetSeq(("1", "2"), source_ids=("b", "a")).source_names == ("b", "a")
