"""Limits on how much of the available data one batch takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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


class LimitUnit(str, Enum):
    """What a limit counts."""

    ROWS = "rows"
    FILES = "files"
    BYTES = "bytes"

    def limit(self, size: int) -> ReadLimit:
        """The limit of at most `size` of this unit."""
        match self:
            case LimitUnit.ROWS:
                return ReadMaxRows(size)
            case LimitUnit.FILES:
                return ReadMaxFiles(size)
            case LimitUnit.BYTES:
                return ReadMaxBytes(size)

    def most_of(self, limit: ReadLimit) -> int | None:
        """How much of this unit a limit allows; None if it does not limit this unit."""
        sizes = [_size(part, self) for part in parts_of(limit)]
        return min((size for size in sizes if size is not None), default=None)

    def replaced_in(self, limit: ReadLimit, size: int) -> ReadLimit:
        """A limit of `size`, together with those parts of `limit` that count something else."""
        others = [
            part for part in parts_of(limit) if part != ALL_AVAILABLE and _size(part, self) is None
        ]
        return CompositeReadLimit((*others, self.limit(size))) if others else self.limit(size)


def parts_of(limit: ReadLimit) -> tuple[ReadLimit, ...]:
    """The parts of a composite limit; any other limit alone."""
    return limit.limits if isinstance(limit, CompositeReadLimit) else (limit,)


def unit_of(limit: ReadLimit, otherwise: LimitUnit) -> LimitUnit | None:
    """The unit that a limit counts; `otherwise` without a limit; None if it is not known."""
    units = [unit for unit in LimitUnit if unit.most_of(limit) is not None]
    if units:
        return units[0]
    known = all(isinstance(part, (ReadAllAvailable, ReadMinRows)) for part in parts_of(limit))
    return otherwise if known else None


def _size(part: ReadLimit, unit: LimitUnit) -> int | None:
    match part, unit:
        case ReadMaxRows(size), LimitUnit.ROWS:
            return size
        case ReadMaxFiles(size), LimitUnit.FILES:
            return size
        case ReadMaxBytes(size), LimitUnit.BYTES:
            return size
    return None
