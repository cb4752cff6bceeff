"""The offsets of the Kafka, Delta and Iceberg sources, parsed from their JSON.

Other sources have offsets of their own, which are not parsed: `parse_known` returns None for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.offset_numbers import is_whole_number

_BEFORE_FIRST_FILE = (-1, -100)
"""Delta's BASE_INDEX: -1 in the log, -100 in memory and with schema tracking."""
_SCHEMA_CHANGE = (-20, -19)
"""Delta's METADATA_CHANGE_INDEX and POST_METADATA_CHANGE_INDEX."""


@dataclass(frozen=True, order=True)
class TopicPartition:
    """A partition of a Kafka topic; as text `topic-partition`, as in Kafka's own messages."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class KafkaOffset:
    """Of each partition the offset of the first record that is not read yet."""

    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class DeltaOffset:
    """A version of a Delta table and the index of the last file that is read of its commit."""

    table_id: str
    version: int
    index: int
    is_initial_snapshot: bool

    @property
    def is_before_first_file(self) -> bool:
        """Whether no file of the version is read yet, so that all earlier versions are done."""
        return self.index in _BEFORE_FIRST_FILE

    @property
    def is_at_schema_change(self) -> bool:
        return self.index in _SCHEMA_CHANGE


@dataclass(frozen=True)
class IcebergOffset:
    """A snapshot of an Iceberg table and the position among its files.

    With `scans_all_files` these are all files of the snapshot, else those that it has added.
    """

    snapshot_id: int
    position: int
    scans_all_files: bool


KnownOffset = KafkaOffset | DeltaOffset | IcebergOffset


def parse_known(offset: str | None) -> KnownOffset | None:
    """The parsed offset; None for None, and for an offset of any other source."""
    try:
        value = None if offset is None else json.loads(offset)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    return _delta(value) or _iceberg(value) or _kafka(value)


def _kafka(value: dict[str, Any]) -> KafkaOffset | None:
    found = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        for partition, offset in partitions.items():
            if not partition.isdecimal() or not is_whole_number(offset):
                return None
            found[TopicPartition(topic, int(partition))] = offset
    return KafkaOffset(dict(sorted(found.items())))


def _delta(value: dict[str, Any]) -> DeltaOffset | None:
    version, index = value.get("reservoirVersion"), value.get("index", -1)
    if not is_whole_number(version) or not is_whole_number(index):
        return None
    is_initial = value.get("isStartingVersion") is True
    return DeltaOffset(str(value.get("reservoirId", "")), version, index, is_initial)


def _iceberg(value: dict[str, Any]) -> IcebergOffset | None:
    snapshot, position = value.get("snapshot_id"), value.get("position")
    if not is_whole_number(snapshot) or not is_whole_number(position):
        return None
    return IcebergOffset(snapshot, position, value.get("scan_all_files") is True)
