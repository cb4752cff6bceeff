"""Setting the offsets of a Kafka source to a time, with a broker that has fixed answers.

The real broker is asked in `tests/real`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.checkpoint.known_offsets import TopicPartition
from penstock.checkpoint.tools import backup
from penstock.checkpoint.tools.kafka_surgery import OffsetAtTime, set_offset_to_time
from penstock.checkpoint.tools.view import CheckpointView
from penstock.errors import SurgeryRefusedError
from tests.docs.clicks import clicks

TIME = 1_767_225_600_000
FOUND = {
    TopicPartition("clicks", 0): OffsetAtTime(700),
    TopicPartition("clicks", 1): OffsetAtTime(48_700, is_latest=True),
}


@dataclass
class Answers:
    found: Mapping[TopicPartition, OffsetAtTime] = field(default_factory=lambda: FOUND)
    asked: list[tuple[list[TopicPartition], int]] = field(default_factory=list)

    def offsets_at(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, OffsetAtTime]:
        self.asked.append((list(partitions), time_ms))
        return self.found


def committed_clicks(root: Path) -> CheckpointView:
    clicks(root)
    (root / "offsets/42").unlink()
    return CheckpointView(root)


def test_the_offsets_of_all_partitions_are_set(checkpoint: Path) -> None:
    view, broker = committed_clicks(checkpoint), Answers()
    plan = set_offset_to_time(view, "0", TIME, broker)
    assert broker.asked == [(list(FOUND), TIME)]
    assert plan.operation == "set-offset 0 --kafka-timestamp 2026-01-01T00:00:00.000Z"
    assert plan.outcome.endswith("Offsets moved: -48,467.")
    assert plan.warnings[0].startswith(
        "1 of 2 partitions have no record with the timestamp 2026-01-01T00:00:00.000Z or a later "
        "one, and start at their latest offset: clicks-1 at 48,700."
    )
    backup.apply(checkpoint, plan)
    after = CheckpointView(checkpoint)
    for batch in (40, 41):
        (offset,) = after.entry(batch).offsets
        assert json.loads(offset or "") == {"clicks": {"0": 700, "1": 48_700}}


def test_a_planned_batch_is_refused_before_the_broker_is_asked(checkpoint: Path) -> None:
    broker = Answers()
    with pytest.raises(SurgeryRefusedError, match="Batch 42 is planned"):
        set_offset_to_time(CheckpointView(clicks(checkpoint)), "0", TIME, broker)
    assert broker.asked == []


@pytest.mark.parametrize("offset", ["-", "17", '{"logOffset":3}', "{}"])
def test_a_source_without_partitions_is_refused(checkpoint: Path, offset: str) -> None:
    committed_clicks(checkpoint)
    entry = checkpoint / "offsets/41"
    entry.write_text("\n".join([*entry.read_text().splitlines()[:2], offset]))
    with pytest.raises(SurgeryRefusedError, match=r"no partitions of Kafka topics .*as JSON"):
        set_offset_to_time(CheckpointView(checkpoint), "0", TIME, Answers())
