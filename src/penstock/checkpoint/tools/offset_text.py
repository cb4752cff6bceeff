"""Describes offsets: the kind of their source, their position in words, and their difference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from penstock.checkpoint.json_text import json_or_text
from penstock.checkpoint.known_offsets import (
    DeltaOffset,
    IcebergOffset,
    KafkaOffset,
    TopicPartition,
    parse_known,
)
from penstock.checkpoint.offset_numbers import MISSING, is_whole_number, matched_values

NOT_STARTED = "-"

_KINDS = (
    ({"logOffset"}, "files"),
    ({"reservoirVersion"}, "Delta table"),
    ({"snapshot_id", "position"}, "Iceberg table"),
    ({"shardId"}, "Kinesis shards"),
)
_SUMMED_KINDS = {"counter", "files", "Kafka topics", "Kinesis shards"}
"""The kinds of sources whose offsets hold numbers of one unit."""
_NAMED_FIELDS = 3
"""Of an unknown source, the fields that have moved are named if there are no more than these."""
_FIELD = re.compile(r"[\w.-]{1,30}")
"""The names of fields that are shown; others could be markup, or too long for a table."""
_NAMED_PARTITIONS = 4
"""A topic with more partitions is described by their number and the range of their offsets."""


def kind_of(offset: str | None) -> str:
    """The kind of source, derived from the keys of an offset; `unknown` if they are not known."""
    value = json_or_text(offset)
    if is_whole_number(value):
        return "counter"
    if not isinstance(value, dict):
        return "unknown"
    for keys, kind in _KINDS:
        if keys <= value.keys():
            return kind
    return "Kafka topics" if isinstance(parse_known(offset), KafkaOffset) else "unknown"


def in_words(offset: str | None) -> str:
    """An offset of Kafka, Delta or Iceberg in words; any other as it is, `-` for None."""
    known = parse_known(offset)
    if isinstance(known, KafkaOffset):
        return partitions_in_words(known.partitions)
    if isinstance(known, DeltaOffset):
        of = "initial snapshot, version" if known.is_initial_snapshot else "version"
        return f"{of} {known.version:,}, {_file_in_words(known)}"
    if isinstance(known, IcebergOffset):
        files = "all files" if known.scans_all_files else "added files"
        return f"snapshot {known.snapshot_id}, position {known.position:,} of its {files}"
    return NOT_STARTED if offset is None else offset


def movement(old: str | None, new: str | None) -> str:
    """The difference between two offsets: `+120` if they count something, else a word.

    For Kafka it is the number of offsets over all partitions, where a partition that only `new` has
    counts from 0, and the number of partitions that were added or are missing. For an unknown
    source it is that of each field, if the fields are few numbers.
    """
    if old == new:
        return "unchanged"
    if new is None:
        return "lost its offset"
    if old is None:
        return "started"
    before, after = parse_known(old), parse_known(new)
    if isinstance(before, DeltaOffset) and isinstance(after, DeltaOffset):
        return _delta_movement(before, after)
    if isinstance(before, IcebergOffset) and isinstance(after, IcebergOffset):
        return _iceberg_movement(before, after)
    parts = [_difference(old, new)]
    if isinstance(before, KafkaOffset) and isinstance(after, KafkaOffset):
        added = len(after.partitions.keys() - before.partitions.keys())
        gone = len(before.partitions.keys() - after.partitions.keys())
        parts += [f"{_counted(added, 'partition')} added"] * bool(added)
        parts += [f"{_counted(gone, 'partition')} missing"] * bool(gone)
    return ", ".join(parts)


def position_in(offset: str | None) -> dict[str, Any] | None:
    """The position in an offset of Kafka, Delta or Iceberg, for JSON; None for other sources."""
    known = parse_known(offset)
    if isinstance(known, KafkaOffset):
        partitions = known.partitions.items()
        return {"partitions": [_of_partition(which) | {"offset": at} for which, at in partitions]}
    if isinstance(known, DeltaOffset):
        return {
            "tableId": known.table_id,
            "version": known.version,
            "index": known.index,
            "isInitialSnapshot": known.is_initial_snapshot,
        }
    if isinstance(known, IcebergOffset):
        return {
            "snapshotId": known.snapshot_id,
            "position": known.position,
            "scansAllFiles": known.scans_all_files,
        }
    return None


def partition_changes(
    old: str | None, new: str | None, names: tuple[str, str] = ("start", "end")
) -> list[dict[str, Any]] | None:
    """The partitions of two Kafka offsets, each with both numbers and their difference, for JSON.

    None if `new` is no offset of Kafka. A number is None if its side does not have the partition,
    and then so is the difference.
    """
    before, after = parse_known(old), parse_known(new)
    if not isinstance(after, KafkaOffset):
        return None
    olds = before.partitions if isinstance(before, KafkaOffset) else {}
    rows = []
    for which in sorted({*olds, *after.partitions}):
        start, end = olds.get(which), after.partitions.get(which)
        count = None if start is None or end is None else end - start
        rows.append(_of_partition(which) | {names[0]: start, names[1]: end, "count": count})
    return rows


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as text, with ranges: `1 to 4, 7`."""
    parts: list[tuple[int, int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1] = (parts[-1][0], number)
        else:
            parts.append((number, number))
    return ", ".join(as_text(range(a, b + 1)) for a, b in parts)


def as_text(numbers: range) -> str:
    """Consecutive numbers as text: `1 to 4`, or `7`."""
    first, last = numbers[0], numbers[-1]
    return str(first) if first == last else f"{first} to {last}"


def partitions_in_words(partitions: Mapping[TopicPartition, int]) -> str:
    """Kafka partitions, in order, with their offsets; of a topic with many of them the range."""
    words = []
    for topic, group in groupby(partitions.items(), lambda item: item[0].topic):
        members = list(group)
        if len(members) <= _NAMED_PARTITIONS:
            words += [f"{which} at {offset:,}" for which, offset in members]
        else:
            offsets = [offset for _, offset in members]
            words.append(
                f"{topic}: {len(members)} partitions at {min(offsets):,} to {max(offsets):,}"
            )
    return ", ".join(words)


def _file_in_words(offset: DeltaOffset) -> str:
    if offset.is_before_first_file:
        return "before its first file"
    return "at its schema change" if offset.is_at_schema_change else f"file index {offset.index:,}"


def _delta_movement(old: DeltaOffset, new: DeltaOffset) -> str:
    if old.table_id != new.table_id:
        return "another table"
    versions = new.version - old.version
    if versions:
        return f"{versions:+,} {'version' if abs(versions) == 1 else 'versions'}"
    if old.is_initial_snapshot != new.is_initial_snapshot or min(old.index, new.index) < -1:
        return "changed"
    files = new.index - old.index
    return f"{files:+,} {'file' if abs(files) == 1 else 'files'}"


def _iceberg_movement(old: IcebergOffset, new: IcebergOffset) -> str:
    if old.snapshot_id != new.snapshot_id:
        return "another snapshot"
    return f"{new.position - old.position:+,} in the snapshot"


def _difference(old: str, new: str) -> str:
    """The difference of two offsets of a source that is not described in its own words."""
    before, after = json_or_text(old), json_or_text(new)
    kinds = {kind_of(offset) for offset in (old, new) if json_or_text(offset) != {}}
    if len(kinds) == 1 and kinds <= _SUMMED_KINDS:
        return _summed(before, after)
    if isinstance(before, dict) and isinstance(after, dict):
        return _fields_moved(before, after)
    return "changed"


def _summed(old: Any, new: Any) -> str:
    """The sum of the differences of all numbers in two parsed offsets; `changed` without any."""
    pairs = [pair for pair in matched_values(old, new) if is_whole_number(pair[1])]
    if not pairs:
        return "changed"
    known = [(before, after) for before, after in pairs if is_whole_number(before)]
    difference = sum(after for _, after in pairs) - sum(before for before, _ in known)
    text = f"{difference:+,}"
    went_back = any(after < before for before, after in known)
    return f"{text}, partly back" if went_back and difference > 0 else text


def _fields_moved(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The difference of each field: `offset +10, timestamp +1,000`.

    The numbers of an unknown source may be of different units, so that they have no sum. `changed`
    if many fields have moved, or one that is no whole number or has an unusual name.
    """
    parts = []
    for name in {**new, **old}:
        before, after = old.get(name, MISSING), new.get(name, MISSING)
        if before == after:
            continue
        if not (is_whole_number(before) and is_whole_number(after) and _FIELD.fullmatch(name)):
            return "changed"
        parts.append(f"{name} {after - before:+,}")
    return ", ".join(parts) if 0 < len(parts) <= _NAMED_FIELDS else "changed"


def _of_partition(which: TopicPartition) -> dict[str, Any]:
    return {"topic": which.topic, "partition": which.partition}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
