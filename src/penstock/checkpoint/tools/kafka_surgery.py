"""Plans a change of a Kafka source to the offsets that its broker has at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.checkpoint.json_text import to_json
from penstock.checkpoint.known_offsets import KafkaOffset, TopicPartition, parse_known
from penstock.checkpoint.timestamps import format_timestamp
from penstock.checkpoint.tools.changes import Plan
from penstock.checkpoint.tools.offset_text import movement
from penstock.checkpoint.tools.source_surgery import newest_committed, position_of, set_offset
from penstock.checkpoint.tools.targets import listed
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError


@dataclass(frozen=True)
class OffsetAtTime:
    """The offset of a partition at a time.

    It is the offset of the first record whose timestamp is that time or later. If `is_latest`,
    there is none, and it is the offset after the last record.
    """

    offset: int
    is_latest: bool = False


class Broker(Protocol):
    """A Kafka cluster that can be asked for offsets."""

    def offsets_at(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, OffsetAtTime]:
        """The offset of each of the partitions at a time.

        Raises SurgeryRefusedError if the cluster does not answer or does not have a partition.
        """


def set_offset_to_time(view: CheckpointView, source: str, time_ms: int, broker: Broker) -> Plan:
    """Make the next batch of a Kafka source start at the offsets of a time.

    The partitions are those of the newest offset in the checkpoint. Partitions that the topics have
    in addition start at their beginning, as they would without the change.
    """
    newest = newest_committed(view, "set-offset")
    entry = view.entry(newest)
    current = entry.offsets[position_of(entry, source)]
    known = parse_known(current)
    if current is None or not isinstance(known, KafkaOffset):
        raise SurgeryRefusedError(
            f"Source {source} has no partitions of Kafka topics in its newest offset, "
            f"{current or '-'}. Give the offset as JSON instead of --kafka-timestamp."
        )
    found = broker.offsets_at(list(known.partitions), time_ms)
    new = json.loads(current)
    for which, at in found.items():
        new[which.topic][str(which.partition)] = at.offset
    plan = set_offset(view, source, to_json(new))
    time = format_timestamp(time_ms)
    return replace(
        plan,
        operation=f"set-offset {source} --kafka-timestamp {time}",
        outcome=f"{plan.outcome} Offsets moved: {movement(current, to_json(new))}.",
        warnings=(*_without_records(found, time), *plan.warnings),
    )


def _without_records(found: Mapping[TopicPartition, OffsetAtTime], time: str) -> tuple[str, ...]:
    latest = [f"{which} at {at.offset:,}" for which, at in found.items() if at.is_latest]
    if not latest:
        return ()
    return (
        f"{len(latest)} of {len(found)} partitions have no record with the timestamp {time} or a "
        f"later one, and start at their latest offset: {listed(latest)}.",
    )
