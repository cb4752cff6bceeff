"""How a batch is split: by files, by records, by read limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine.batch_parts import (
    BatchPart,
    FilesPart,
    OffsetsPart,
    SourcePart,
)
from penstock.engine.data_stream import DataStream, MicroBatchStream, Source, SourceFile
from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.read_limit import (
    CompositeReadLimit,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
)


def at(value: Any) -> Offset:
    return SerializedOffset(json.dumps(value, separators=(",", ":")))


class ScriptedSource(Source):
    """A source whose `latest_offset` is a function of the test; without a start from `first`."""

    def __init__(
        self, answer: Callable[[Any, int], Any], first: Any = 0, limit: ReadLimit | None = None
    ) -> None:
        self._answer = answer
        self._first = first
        self._limit = limit
        self.limits: list[ReadLimit] = []

    @property
    def supports_admission_control(self) -> bool:
        return True

    def default_read_limit(self) -> ReadLimit:
        return self._limit or super().default_read_limit()

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        self.limits.append(limit)
        count = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        count = limit.max_files if isinstance(limit, ReadMaxFiles) else count
        end = self._answer(self._first if start is None else json.loads(start.json), count)
        return None if end is None else at(end)

    def get_offset(self) -> Offset | None:
        raise NotImplementedError

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        raise NotImplementedError

    def commit(self, end: Offset) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


class Kafka(MicroBatchStream):
    def __init__(self, first: Any) -> None:
        self._first = first

    def __str__(self) -> str:
        return "KafkaV2[Subscribe[clicks]]"

    @property
    def supports_admission_control(self) -> bool:
        return True

    def initial_offset(self) -> Offset:
        return at(self._first)

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        raise AssertionError("the broker is asked for offsets")

    def get_batch(self, start: Offset | None, end: Offset) -> object:
        raise NotImplementedError

    def commit(self, end: Offset) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


def plus(start: int, count: int) -> int:
    return start + count


def pieces(part: SourcePart) -> list[SourcePart]:
    """The minimal parts of a part."""
    halves = part.halves()
    return [part] if halves is None else [*pieces(halves[0]), *pieces(halves[1])]


def ranges(part: SourcePart) -> list[tuple[Any, Any]]:
    found = []
    for piece in pieces(part):
        assert isinstance(piece, OffsetsPart)
        assert piece.end is not None
        found.append(
            (json.loads(piece.start.json) if piece.start else None, json.loads(piece.end.json))
        )
    return found


def test_files_are_split_down_to_one() -> None:
    files = tuple(SourceFile(f"file:///in/{n}", n) for n in range(5))
    part = FilesPart(ScriptedSource(plus), files, "0")
    assert (part.size, part.unit, part.is_empty) == (5, "file", False)
    assert [piece.files for piece in pieces(part) if isinstance(piece, FilesPart)] == [
        (file,) for file in files
    ]
    assert part.beginning().is_empty
    assert part.ending().is_empty


@pytest.mark.parametrize("start", [None, 0])
def test_numbers_are_split_where_the_source_ends_a_batch(start: int | None) -> None:
    source = ScriptedSource(plus)
    part = OffsetsPart(source, None if start is None else at(start), at(5))
    assert ranges(part) == [(start, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert all(isinstance(limit, ReadMaxRows) for limit in source.limits)


def test_data_that_arrived_later_is_not_included() -> None:
    """Under a large limit a source with sparse rows returns an offset after the end."""
    part = OffsetsPart(ScriptedSource(lambda start, count: start + 100 * count), at(0), at(250))
    assert ranges(part) == [(0, 100), (100, 200), (200, 250)]


def test_offsets_without_a_known_order_are_requested_one_by_one() -> None:
    names = ["a", "x", "c", "b", "later"]
    source = ScriptedSource(lambda start, count: names[min(names.index(start) + count, 4)])
    part = OffsetsPart(source, at("a"), at("b"))
    assert part.size is None
    assert ranges(part) == [("a", "x"), ("x", "c"), ("c", "b")]


@pytest.mark.parametrize(
    "answer",
    [
        lambda start, count: 8,  # all there is, whatever the limit
        lambda start, count: 20,  # more than there was
        lambda start, count: start,  # nothing any more
        lambda start, count: None,
    ],
)
def test_a_source_that_ignores_limits_cannot_be_split(answer: Callable[[Any, int], Any]) -> None:
    assert OffsetsPart(ScriptedSource(answer), at(0), at(8)).halves() is None


def test_a_source_without_admission_control_cannot_be_split() -> None:
    class Rate(ScriptedSource):
        @property
        def supports_admission_control(self) -> bool:
            return False

    assert OffsetsPart(Rate(plus), at(0), at(8)).halves() is None


def test_the_kind_of_limit_is_that_of_the_source() -> None:
    both = CompositeReadLimit((ReadMaxBytes(10), ReadMaxFiles(1000)))
    source = ScriptedSource(plus, limit=both)
    assert OffsetsPart(source, at(0), at(8)).halves() is not None
    assert source.limits == [ReadMaxFiles(4)]


@pytest.mark.parametrize("start", [None, {"clicks": {"0": 10, "1": 7}}])
def test_kafka_is_split_by_records(start: Any) -> None:
    stream = Kafka({"clicks": {"0": 10, "1": 7}})
    end = {"clicks": {"0": 11, "1": 10}}
    part = OffsetsPart(stream, None if start is None else at(start), at(end))
    assert part.unit == "record"
    ends = [piece_end["clicks"] for _, piece_end in ranges(part)]
    assert ends == [{"0": 11, "1": n} for n in (7, 8, 9, 10)]


@pytest.mark.parametrize("start", [None, {"clicks": {"0": 10, "1": 7}}])
def test_one_record_of_kafka_is_the_smallest_part(start: Any) -> None:
    stream = Kafka({"clicks": {"0": 10, "1": 7}})
    one = at({"clicks": {"0": 10, "1": 8}})
    part = OffsetsPart(stream, None if start is None else at(start), one)
    assert (part.size, part.is_smallest, part.halves()) == (1, True, None)


def test_a_first_batch_up_to_the_initial_offset_cannot_be_split() -> None:
    first = {"clicks": {"0": 10, "1": 7}}
    part = OffsetsPart(Kafka(first), None, at(first))
    assert (part.size, part.halves()) == (0, None)


def part_of(source: DataStream, start: int, end: int) -> OffsetsPart:
    return OffsetsPart(source, at(start), at(end))


def test_all_sources_are_split_and_finally_separated() -> None:
    one, two = ScriptedSource(plus), ScriptedSource(plus)
    whole = BatchPart((part_of(one, 0, 2), part_of(two, 5, 6)))
    first, second = whole.halves() or pytest.fail("not cut")
    assert first == BatchPart((part_of(one, 0, 1), part_of(two, 5, 5)), is_last=False)
    assert second == BatchPart((part_of(one, 1, 2), part_of(two, 5, 6)), is_last=True)
    assert first.halves() is None
    of_one, of_two = second.halves() or pytest.fail("not cut")
    assert of_one == BatchPart((part_of(one, 1, 2), part_of(two, 5, 5)), is_last=False)
    assert of_two == BatchPart((part_of(one, 2, 2), part_of(two, 5, 6)), is_last=True)
    assert of_two.halves() is None
    assert [part.source for part in of_two.with_data] == [two]
