"""Splits a batch into halves, and these again, to narrow down the range that makes it fail.

A part of a batch has parts of its sources. How a source can be split depends on its kind:

    file source                  between files, as listed in the source's own log
    Kafka                        between records: every number between two offsets is an offset
    with admission control       at an offset that the source returns for a smaller read limit
    without admission control    not at all: the source is in one half or in the other
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.checkpoint.offset_numbers import MISSING, is_whole_number, matched_values
from penstock.engine.data_stream import DataStream, MicroBatchStream, SourceFile
from penstock.engine.offsets import Offset, SerializedOffset
from penstock.engine.read_limit import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
)

_MOST_STEPS = 10_000
"""How many offsets of a source are requested one by one if their order is not known."""


@dataclass(frozen=True)
class Pieces:
    """The data of a source in a batch that leaves out parts of it: several results of `get_batch`.

    Stands for their union.
    """

    data: tuple[object, ...]


class SourcePart(ABC):
    """A part of one source in a part of a batch: a contiguous range, which may be empty."""

    source: DataStream

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of units in it; None if it is not known."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """The name of the unit that `size` counts, in the singular."""

    @property
    @abstractmethod
    def is_smallest(self) -> bool:
        """Whether the source has no smaller part that is not empty.

        False if a part that cannot be split may still contain many units.
        """

    @abstractmethod
    def read(self) -> object:
        """The data of the part, as from `get_batch`. Only for a part that is not empty."""

    @abstractmethod
    def without(self, part: SourcePart) -> Sequence[SourcePart]:
        """What is left, without a part of this one. None of the results is empty."""

    @abstractmethod
    def halves(self) -> tuple[SourcePart, SourcePart] | None:
        """Two consecutive parts, neither of them empty; None if it cannot be split."""

    @abstractmethod
    def beginning(self) -> SourcePart:
        """The empty part at the start of this one."""

    @abstractmethod
    def ending(self) -> SourcePart:
        """The empty part at the end of this one."""


@dataclass(frozen=True)
class FilesPart(SourcePart):
    """Files of a file source. `directory` is that of the source's log, relative to `sources`."""

    source: DataStream
    files: tuple[SourceFile, ...]
    directory: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.files

    @property
    def size(self) -> int:
        return len(self.files)

    @property
    def unit(self) -> str:
        return "file"

    @property
    def is_smallest(self) -> bool:
        return len(self.files) == 1

    def read(self) -> object:
        return self.source.get_files(self.files)

    def without(self, part: SourcePart) -> Sequence[SourcePart]:
        assert isinstance(part, FilesPart)
        left = replace(self, files=tuple(f for f in self.files if f not in part.files))
        return [] if left.is_empty else [left]

    def halves(self) -> tuple[SourcePart, SourcePart] | None:
        if len(self.files) < 2:
            return None
        middle = len(self.files) // 2
        return replace(self, files=self.files[:middle]), replace(self, files=self.files[middle:])

    def beginning(self) -> SourcePart:
        return replace(self, files=())

    ending = beginning

    @property
    def missing(self) -> list[SourceFile]:
        """The files that do not exist any more; Spark's source reads no rows from them."""
        return [file for file in self.files if self.source.size_of(file) is None]


@dataclass(frozen=True)
class OffsetsPart(SourcePart):
    """The data after `start`, or from the first record if it is None, up to and including `end`."""

    source: DataStream
    start: Offset | None
    end: Offset | None

    @property
    def is_empty(self) -> bool:
        return self.start == self.end

    @property
    def size(self) -> int | None:
        if self.is_empty or self.end is None:
            return 0
        begin = self._begin
        return None if begin is None else _distance(begin, self.end)

    @property
    def unit(self) -> str:
        return "record" if self._is_kafka else "offset"

    @property
    def _is_kafka(self) -> bool:
        return str(self.source).startswith("KafkaV2[")

    @property
    def is_smallest(self) -> bool:
        source = self.source
        if self.is_empty or not source.supports_admission_control:
            return False
        if self.size == 1:
            return True
        # A source without a limit of its own may ignore that of the call.
        takes_limits = source.default_read_limit() != ALL_AVAILABLE
        return takes_limits and source.latest_offset(self._begin, _limit_of(source, 1)) == self.end

    @property
    def _begin(self) -> Offset | None:
        if self.start is None and isinstance(self.source, MicroBatchStream):
            return self.source.initial_offset()
        return self.start

    def read(self) -> object:
        assert self.end is not None
        return self.source.get_batch(self.start, self.end)

    def without(self, part: SourcePart) -> Sequence[SourcePart]:
        assert isinstance(part, OffsetsPart)
        left = replace(self, end=part.start), replace(self, start=part.end)
        return [piece for piece in left if not piece.is_empty and piece.end is not None]

    def halves(self) -> tuple[SourcePart, SourcePart] | None:
        if self.end is None or not self.source.supports_admission_control:
            return None
        if self.size == 0 or (self._is_kafka and self.size == 1):
            return None
        begin = self._begin
        middle = _middle_record(begin, self.end) if self._is_kafka else None
        middle = middle or _middle_by_limit(self.source, begin, self.end)
        if middle is None:
            return None
        return replace(self, end=middle), replace(self, start=middle)

    def beginning(self) -> SourcePart:
        return replace(self, end=self.start)

    def ending(self) -> SourcePart:
        return replace(self, start=self.end)


@dataclass(frozen=True)
class BatchPart:
    """A part of a batch. `is_last` says that it ends where the batch ends.

    It has one part of each source, or several after `without`; some of them may be empty.
    """

    sources: tuple[SourcePart, ...]
    is_last: bool = True

    @property
    def with_data(self) -> list[SourcePart]:
        return [part for part in self.sources if not part.is_empty]

    def read(self) -> dict[DataStream, object]:
        """The data of each source that has any; `Pieces` for several parts of one."""
        found: dict[DataStream, list[object]] = {}
        for part in self.with_data:
            found.setdefault(part.source, []).append(part.read())
        return {s: data[0] if len(data) == 1 else Pieces(tuple(data)) for s, data in found.items()}

    def without(self, smaller: BatchPart) -> BatchPart:
        """What is left, without a part that `halves`, applied repeatedly, has returned."""
        left: list[SourcePart] = []
        for whole, part in zip(self.sources, smaller.sources, strict=True):
            left.extend([whole] if part.is_empty else whole.without(part))
        return replace(self, sources=tuple(left))

    def halves(self) -> tuple[BatchPart, BatchPart] | None:
        """Two parts that, run one after the other, replace this one; None if it is minimal.

        Every source that can be split is split; the others are in the second part. If none can be
        split, the first part has the first source with data, the second part has the others.
        """
        cuts = [part.halves() for part in self.sources]
        if not any(cuts):
            if len(self.with_data) < 2:
                return None
            first = next(i for i, part in enumerate(self.sources) if not part.is_empty)
            cuts[first] = self.sources[first], self.sources[first].ending()
        halves = [
            cut or (part.beginning(), part) for cut, part in zip(cuts, self.sources, strict=True)
        ]
        return (
            BatchPart(tuple(first for first, _ in halves), is_last=False),
            BatchPart(tuple(second for _, second in halves), is_last=self.is_last),
        )


def _middle_record(start: Offset | None, end: Offset) -> Offset | None:
    """The Kafka offset after half of the records, filled partition by partition.

    None if the start is not known or there are fewer than two records.
    """
    total = None if start is None else _distance(start, end)
    if start is None or total is None or total < 2:
        return None
    left = total // 2
    position: dict[str, dict[str, int]] = json.loads(start.json)
    for topic, partitions in json.loads(end.json).items():
        for partition, last in partitions.items():
            taken = min(left, last - position[topic][partition])
            position[topic][partition] += taken
            left -= taken
    return SerializedOffset(json.dumps(position, separators=(",", ":")))


def _middle_by_limit(source: DataStream, start: Offset | None, end: Offset) -> Offset | None:
    """An offset between two at which the source ends a batch under some read limit; None if none.

    If the offsets are numbers it is near the middle; otherwise it is the median of all of them.
    """
    size = _distance(start, end)
    while size is not None and size > 1:
        size //= 2
        offset = source.latest_offset(start, _limit_of(source, size))
        if offset is not None and offset != start and _lies_between(offset, start, end):
            return offset
    steps = _steps_between(source, start, end)
    return steps[len(steps) // 2] if steps else None


def _steps_between(source: DataStream, start: Offset | None, end: Offset) -> list[Offset]:
    """All offsets at which the source ends a batch of size 1; empty if they do not reach `end`."""
    smallest = _limit_of(source, 1)
    steps: dict[Offset, None] = {}
    at = start
    while len(steps) < _MOST_STEPS:
        step = source.latest_offset(at, smallest)
        if step == end:
            return list(steps)
        if step is None or step == start or step in steps:
            return []
        steps[step] = None
        at = step
    return []


def _limit_of(source: DataStream, size: int) -> ReadLimit:
    """A limit of `size` in files if the source was configured with a file limit, else in rows."""
    limit = source.default_read_limit()
    limits = limit.limits if isinstance(limit, CompositeReadLimit) else (limit,)
    counts_files = any(isinstance(one, ReadMaxFiles) for one in limits)
    return ReadMaxFiles(size) if counts_files else ReadMaxRows(size)


def _lies_between(offset: Offset, start: Offset | None, end: Offset) -> bool:
    after, before = _distance(start, offset), _distance(offset, end)
    return after is not None and before is not None and before > 0


def _distance(start: Offset | None, end: Offset) -> int | None:
    """The sum of the differences of the whole numbers in two offsets.

    Without a start offset the numbers count from 0. Returns None if a number is smaller at the end
    or if the offsets differ in anything but whole numbers.
    """
    begin = MISSING if start is None else json.loads(start.json)
    total = 0
    for first, last in matched_values(begin, json.loads(end.json)):
        if first is MISSING and start is None:
            first = 0
        if is_whole_number(first) and is_whole_number(last) and first <= last:
            total += last - first
        elif first != last:
            return None
    return total
