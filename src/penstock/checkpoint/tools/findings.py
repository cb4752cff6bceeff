"""The findings of `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.checkpoint.paths import CheckpointPath
from penstock.errors import UnsupportedLogVersionError


class Severity(str, Enum):
    ERROR = "error"
    """A restart fails, or data is lost or processed twice."""
    WARNING = "warning"
    """A restart works, but something is wrong."""
    INFO = "info"
    """Needs no action."""


@dataclass(frozen=True)
class Finding:
    """A problem, how Spark and Penstock react to it on a restart, and what to do about it."""

    severity: Severity
    file: str
    problem: str
    spark: str
    penstock: str
    remedy: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "file": self.file,
            "problem": self.problem,
            "spark": self.spark,
            "penstock": self.penstock,
            "remedy": self.remedy,
        }


@dataclass(frozen=True)
class Verification:
    """All findings about a checkpoint, the most severe first."""

    path: str
    next_batch: int
    is_planned: bool
    findings: tuple[Finding, ...]

    @property
    def will_restart(self) -> bool:
        """Whether a restart continues without losing or repeating data."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "willRestart": self.will_restart,
            "nextBatch": self.next_batch,
            "isPlanned": self.is_planned,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def remedy_of_intact(error: Exception, path: CheckpointPath) -> str | None:
    """The remedy if a log file was not read and may be intact; None if it is damaged.

    Without an intact entry its batch would run again or lose its plan.
    """
    if isinstance(error, UnsupportedLogVersionError):
        return f"keep {path}, and use a Spark and a Penstock that read its version"
    if isinstance(error, OSError):
        return f"keep {path}, make it readable for this user, and verify again"
    return None
