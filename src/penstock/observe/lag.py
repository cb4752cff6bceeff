"""How far a query is behind a source, computed from offsets: in the source's unit and in time."""

from __future__ import annotations

import json
from collections import deque

from penstock.checkpoint.known_offsets import (
    DeltaOffset,
    IcebergOffset,
    KafkaOffset,
    parse_known,
)
from penstock.checkpoint.offset_numbers import MISSING, is_number, matched_values

_MOST_TIMES = 1000


def lag_between(reached: str | None, latest: str | None) -> int | float | None:
    """The difference of two offsets, given as JSON, in the unit of the source.

    For a Delta table these are versions. For an Iceberg table it is None, since the ids of
    snapshots are not in order. Otherwise it is the sum of the differences of the numbers: for Kafka
    of offsets, which are records unless the topic has gaps. A number that only `latest` has, such
    as that of a new Kafka partition, counts from 0; a number that is smaller in `latest` counts as
    0; a number that only `reached` has is left out. Returns None if an offset is missing, is not
    JSON or has no numbers, and if the two differ in shape.
    """
    if reached is None or latest is None:
        return None
    ours, theirs = parse_known(reached), parse_known(latest)
    if isinstance(ours, DeltaOffset) and isinstance(theirs, DeltaOffset):
        same_table = ours.table_id == theirs.table_id
        return max(theirs.version - ours.version, 0) if same_table else None
    if isinstance(ours, IcebergOffset) or isinstance(theirs, IcebergOffset):
        return None
    try:
        old_offset, new_offset = json.loads(reached), json.loads(latest)
    except ValueError:
        return None
    differences: list[int | float] = []
    for old, new in matched_values(old_offset, new_offset):
        if is_number(new) and (old is MISSING or is_number(old)):
            differences.append(max(new - (0 if old is MISSING else old), 0))
        elif is_number(new) or isinstance(new, dict):
            return None
    return sum(differences) if differences else None


def catch_up_seconds(
    reached: str | None, lag: int | float | None, rows_per_second: float
) -> float | None:
    """The time to process a lag at a rate. None for sources other than Kafka, whose unit is not
    rows, and for a lag without a rate."""
    if lag is None or not isinstance(parse_known(reached), KafkaOffset):
        return None
    if lag == 0:
        return 0.0
    return lag / rows_per_second if 0 < rows_per_second < float("inf") else None


class SeenOffsets:
    """The latest offsets that one source has reported over time.

    From them it is known how old a position is: everything that the source had when it reported an
    offset is processed once the query has reached that offset.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, str]] = deque()

    def age_ms(self, at_ms: int, reached: str | None, latest: str | None) -> int | None:
        """The time from when the source last had nothing beyond `reached` until `at_ms`.

        `latest` is what it reported at `at_ms`; 0 if that is reached. None if the lag is unknown,
        and until the query has reached the first offset that was reported in this run.
        """
        if latest is None or lag_between(reached, latest) is None:
            return None
        self._seen.append((at_ms, latest))
        while len(self._seen) > 1 and lag_between(reached, self._seen[1][1]) == 0:
            self._seen.popleft()
        since_ms, offset = self._seen[0]
        is_reached = lag_between(reached, offset) == 0
        if len(self._seen) > _MOST_TIMES:
            # Fewer times make the result too large by at most the time between two of them.
            self._seen = deque(list(self._seen)[::2])
        return max(at_ms - since_ms, 0) if is_reached else None
