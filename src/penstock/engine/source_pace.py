"""The read limit that a batch had because of `pace`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.engine.read_limit import LimitUnit


class PaceReason(str, Enum):
    """Why the limit of a source is what it is."""

    START = "start"
    GROW = "grow"
    SHRINK = "shrink"
    HOLD = "hold"
    JOB_LIMIT = "at the job's limit"
    NO_BACKLOG = "no backlog"


@dataclass(frozen=True)
class SourcePace:
    """The limit that a batch was read with, and why."""

    target_ms: int
    limit: int
    unit: LimitUnit
    reason: PaceReason

    def metrics(self) -> dict[str, str]:
        """The pace as metrics of the source in a progress record: texts, as in Spark's JSON."""
        return {
            "paceTargetMs": str(self.target_ms),
            "paceLimit": str(self.limit),
            "paceUnit": self.unit.value,
            "paceReason": self.reason.value,
        }
