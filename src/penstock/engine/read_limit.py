"""Limits on how much of the available data one batch takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadLimit:
    """The base of all limits. A source ignores the kinds that it does not support."""


@dataclass(frozen=True)
class ReadAllAvailable(ReadLimit):
    """No limit."""

    def __str__(self) -> str:
        return "All Available"


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """At most about `max_rows` rows."""

    max_rows: int

    def __str__(self) -> str:
        return f"MaxRows: {self.max_rows}"


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """At least `min_rows` rows, unless the last batch was more than the delay ago."""

    min_rows: int
    max_trigger_delay_ms: int

    def __str__(self) -> str:
        return f"MinRows: {self.min_rows}, MaxTriggerDelayMs: {self.max_trigger_delay_ms}"


@dataclass(frozen=True)
class ReadMaxFiles(ReadLimit):
    """At most about `max_files` files."""

    max_files: int

    def __str__(self) -> str:
        return f"MaxFiles: {self.max_files}"


@dataclass(frozen=True)
class ReadMaxBytes(ReadLimit):
    """At most about `max_bytes` bytes, but at least one file."""

    max_bytes: int

    def __str__(self) -> str:
        return f"MaxBytes: {self.max_bytes}"


@dataclass(frozen=True)
class CompositeReadLimit(ReadLimit):
    """Several limits that all apply."""

    limits: tuple[ReadLimit, ...]

    def __str__(self) -> str:
        return f"Composite: [{', '.join(map(str, self.limits))}]"


ALL_AVAILABLE = ReadAllAvailable()
