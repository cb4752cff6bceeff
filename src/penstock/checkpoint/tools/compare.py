"""The differences of two checkpoints, for `diff`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.checkpoint.known_offsets import KafkaOffset, parse_known
from penstock.checkpoint.tools.inspect import BatchReport, CheckpointReport, inspect
from penstock.checkpoint.tools.offset_text import (
    in_words,
    movement,
    partition_changes,
    partitions_in_words,
)
from penstock.checkpoint.tools.view import CheckpointView


@dataclass(frozen=True)
class Difference:
    """One difference. `left` or `right` is None if that checkpoint does not have the subject."""

    subject: str
    left: str | None
    right: str | None

    @property
    def distance(self) -> str | None:
        """How far the right side is from the left; None if they are no two offsets."""
        return None

    @property
    def in_words(self) -> tuple[str | None, str | None]:
        """Both sides as text for people."""
        return self.left, self.right

    def to_dict(self) -> dict[str, Any]:
        return {"subject": self.subject, "left": self.left, "right": self.right}


@dataclass(frozen=True)
class OffsetDifference(Difference):
    """A difference of the offsets of a source. In words, with the partitions that differ only."""

    @property
    def distance(self) -> str | None:
        if self.left is None or self.right is None:
            return None
        return movement(self.left, self.right)

    @property
    def in_words(self) -> tuple[str | None, str | None]:
        left, right = parse_known(self.left), parse_known(self.right)
        if not isinstance(left, KafkaOffset) or not isinstance(right, KafkaOffset):
            return self.left and in_words(self.left), self.right and in_words(self.right)
        sides = left.partitions, right.partitions
        equal = {which for which, at in sides[0].items() if sides[1].get(which) == at}
        mine, theirs = ({w: at for w, at in side.items() if w not in equal} for side in sides)
        return partitions_in_words(mine) or None, partitions_in_words(theirs) or None

    def to_dict(self) -> dict[str, Any]:
        described = super().to_dict() | {"distance": self.distance}
        partitions = partition_changes(self.left, self.right, ("left", "right"))
        if self.left is None or partitions is None:
            return described
        differing = [one for one in partitions if one["left"] != one["right"]]
        return described | {"partitions": differing}


def compare(left: CheckpointView, right: CheckpointView) -> list[Difference]:
    """All differences that affect a restart, those of the whole checkpoint first."""
    return list(_differences(inspect(left), inspect(right)))


def _differences(left: CheckpointReport, right: CheckpointReport) -> Iterator[Difference]:
    yield from _unless_equal("query id", left.query_id, right.query_id)
    yield from _unless_equal("next batch", _next(left), _next(right))
    yield from _unless_equal(
        "offset log format", left.offset_log_versions, right.offset_log_versions
    )
    yield from _unless_equal(
        "commit log format", left.commit_log_versions, right.commit_log_versions
    )
    for key in sorted({*left.settings, *right.settings}):
        yield from _unless_equal(f"setting {key}", left.settings.get(key), right.settings.get(key))
    mine, theirs = ({b.id: b for b in report.batches} for report in (left, right))
    for batch in sorted({*mine, *theirs}):
        yield from _batch_differences(batch, mine.get(batch), theirs.get(batch))
    operators = ({o.id: o for o in report.operators} for report in (left, right))
    ours, others = operators
    for operator in sorted({*ours, *others}):
        a, b = ours.get(operator), others.get(operator)
        yield from _unless_equal(
            f"state operator {operator}",
            f"{a.name or '?'}, {a.provider}, {a.partitions} partitions" if a else None,
            f"{b.name or '?'}, {b.provider}, {b.partitions} partitions" if b else None,
        )
        yield from _unless_equal(
            f"state operator {operator} versions",
            f"{a.versions[0]} to {a.versions[-1]}" if a and a.versions else None,
            f"{b.versions[0]} to {b.versions[-1]}" if b and b.versions else None,
        )


def _batch_differences(
    batch: int, left: BatchReport | None, right: BatchReport | None
) -> Iterator[Difference]:
    if left is None or right is None:
        yield Difference(
            f"batch {batch}", left.status if left else None, right.status if right else None
        )
        return
    yield from _unless_equal(f"batch {batch}", left.status, right.status)
    yield from _unless_equal(f"batch {batch} watermark", left.watermark_ms, right.watermark_ms)
    yield from _unless_equal(f"batch {batch} time", left.planned_at_ms, right.planned_at_ms)
    for name in sorted({*left.offsets, *right.offsets}):
        sides = left.offsets.get(name), right.offsets.get(name)
        if sides[0] != sides[1]:
            yield OffsetDifference(f"batch {batch} source {name}", *sides)


def _next(report: CheckpointReport) -> str:
    return f"{report.next_batch}{', planned' if report.is_planned else ''}"


def _unless_equal(subject: str, left: object, right: object) -> Iterator[Difference]:
    if left != right:
        yield Difference(subject, _shown(left), _shown(right))


def _shown(value: object) -> str | None:
    if isinstance(value, tuple):
        return ", ".join(f"v{version}" for version in value)
    return None if value is None else str(value)
