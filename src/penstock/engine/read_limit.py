"""How much of what is available one batch may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadLimit:
    """A bound on one batch's share of a source. Sources ignore kinds they do not know."""


@dataclass(frozen=True)
class ReadAllAvailable(ReadLimit):
    """No bound."""

    def __str__(self) -> str:
        return "All Available"


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """About so many rows at most."""

    max_rows: int

    def __str__(self) -> str:
        return f"MaxRows: {self.max_rows}"


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """No batch below so many rows, unless the delay has passed since the last one."""

    min_rows: int
    max_trigger_delay_ms: int

    def __str__(self) -> str:
        return f"MinRows: {self.min_rows}, MaxTriggerDelayMs: {self.max_trigger_delay_ms}"


@dataclass(frozen=True)
class ReadMaxFiles(ReadLimit):
    """About so many files at most."""

    max_files: int

    def __str__(self) -> str:
        return f"MaxFiles: {self.max_files}"


@dataclass(frozen=True)
class ReadMaxBytes(ReadLimit):
    """About so many bytes at most; never less than one file."""

    max_bytes: int

    def __str__(self) -> str:
        return f"MaxBytes: {self.max_bytes}"


@dataclass(frozen=True)
class CompositeReadLimit(ReadLimit):
    """All of several bounds at once."""

    limits: tuple[ReadLimit, ...]

    def __str__(self) -> str:
        return f"Composite: [{', '.join(map(str, self.limits))}]"


ALL_AVAILABLE = ReadAllAvailable()
