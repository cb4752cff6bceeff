"""Offsets, and the mapping of sources to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint import OffsetSeq, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.offsets import LongOffset, Offset, SerializedOffset
from penstock.engine.stream_progress import StreamProgress
from penstock.errors import SourceCountError
from tests.engine.numbers import NumberSource, NumberStream

A = NumberSource("a", [], [])
B = NumberStream("b", [], [])


# Offsets.


@given(st.integers())
def test_an_offset_read_back_from_the_log_equals_the_live_one(value: int) -> None:
    live, read = LongOffset(value), SerializedOffset(str(value))
    assert live == read
    assert hash(live) == hash(read)
    assert LongOffset.of(read) == live
    assert LongOffset.of(read).value == value


def test_offsets_with_other_json_are_unequal() -> None:
    assert LongOffset(1) != LongOffset(2)
    assert SerializedOffset('{"a":1}') != SerializedOffset('{"a": 1}')


def test_an_offset_equals_nothing_but_an_offset() -> None:
    assert LongOffset(1) != 1
    assert LongOffset(1) != "1"


def test_an_offset_shows_its_json() -> None:
    assert str(SerializedOffset('{"a":1}')) == '{"a":1}'
    assert repr(LongOffset(7)) == "LongOffset(7)"


def test_an_offset_that_is_no_number_is_no_long_offset() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        LongOffset.of(SerializedOffset('{"a":1}'))


# The mapping.


def test_a_progress_looks_up_offsets_by_source() -> None:
    progress = StreamProgress({A: LongOffset(1)})
    assert progress[A] == LongOffset(1)
    assert progress.get(B) is None
    assert B not in progress
    assert list(progress) == [A]
    assert len(progress) == 1
    assert len(StreamProgress()) == 0


def test_adding_makes_a_new_progress_in_which_updates_take_precedence() -> None:
    old = StreamProgress({A: LongOffset(1)})
    new = old + {A: LongOffset(2), B: LongOffset(3)}
    assert dict(new) == {A: LongOffset(2), B: LongOffset(3)}
    assert dict(old) == {A: LongOffset(1)}
    assert dict(new + old) == {A: LongOffset(1), B: LongOffset(3)}


def test_a_progress_copies_its_argument() -> None:
    offsets: dict[DataStream, Offset] = {A: LongOffset(1)}
    progress = StreamProgress(offsets)
    offsets[A] = LongOffset(2)
    assert progress[A] == LongOffset(1)
    with pytest.raises(TypeError):
        progress[A] = LongOffset(2)  # type: ignore[index]  # that is the point


def test_progresses_with_the_same_offsets_are_equal() -> None:
    assert StreamProgress({A: LongOffset(1)}) == StreamProgress({A: SerializedOffset("1")})


def test_a_progress_shows_sources_and_offsets() -> None:
    progress = StreamProgress({A: LongOffset(1), B: LongOffset(2)})
    assert str(progress) == repr(progress) == "{Numbers[a]: 1,Numbers[b]: 2}"
    assert str(StreamProgress()) == "{}"


# To the log and back.


def test_a_log_entry_has_the_offsets_in_the_order_of_the_sources() -> None:
    metadata = OffsetSeqMetadata(1, 2)
    progress = StreamProgress({B: LongOffset(2)})
    assert progress.to_offset_seq([A, B, B], metadata) == OffsetSeq((None, "2", "2"), metadata)
    assert StreamProgress().to_offset_seq([], None) == OffsetSeq(())


def test_a_log_entry_by_name_has_each_source_with_an_offset_once() -> None:
    progress = StreamProgress({B: LongOffset(2)})
    entry = progress.to_offset_seq([A, B, B], None, ["a", "b", "b"])
    assert entry == OffsetSeq(("2",), None, ("b",))


def test_a_log_entry_gives_back_the_progress() -> None:
    progress = StreamProgress.from_offset_seq(OffsetSeq(("1", None)), [A, B])
    assert progress == {A: LongOffset(1)}
    assert isinstance(progress[A], LongOffset)


@pytest.mark.parametrize("sources", [[], [A], [A, B, A]])
def test_another_number_of_sources_is_refused(sources: list[NumberSource | NumberStream]) -> None:
    with pytest.raises(SourceCountError) as caught:
        StreamProgress.from_offset_seq(OffsetSeq(("1", "2")), sources)
    assert str(caught.value) == (
        f"There are [2] sources in the checkpoint offsets and now there are [{len(sources)}] "
        "sources requested by the query. Cannot continue."
    )


def test_a_log_entry_with_names_is_matched_by_name() -> None:
    entry = OffsetSeq(("2", "1", "9"), None, ("b", "a", "dropped"))
    assert StreamProgress.from_offset_seq(entry, [A, B], ["a", "b"]) == {
        A: LongOffset(1),
        B: LongOffset(2),
    }
    assert StreamProgress.from_offset_seq(entry, [A], ["new"]) == {}


def test_sources_without_names_are_named_by_their_position() -> None:
    entry = OffsetSeq(("2", "1"), None, ("1", "0"))
    assert StreamProgress.from_offset_seq(entry, [A, B]) == {A: LongOffset(1), B: LongOffset(2)}
    assert StreamProgress.from_offset_seq(OffsetSeq(("2",), None, ("1",)), [A, B]) == {
        B: LongOffset(2)
    }


@pytest.mark.parametrize("names", [("orders",), ("0", "users"), ("2",)])
def test_sources_without_names_are_refused_a_log_of_other_names(names: tuple[str, ...]) -> None:
    entry = OffsetSeq(("1",) * len(names), None, names)
    with pytest.raises(SourceCountError, match="have no names and are identified"):
        StreamProgress.from_offset_seq(entry, [A, B])
