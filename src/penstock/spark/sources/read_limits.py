"""Converts read limits between Spark's classes and the engine's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.engine.read_limit import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)
from penstock.errors import ExecutionError
from penstock.spark.jvm.gateway import Jvm

_PACKAGE = "org.apache.spark.sql.connector.read.streaming."
_INTERFACE = f"{_PACKAGE}ReadLimit"


def from_jvm(limit: Any) -> ReadLimit:
    """Convert a limit of Spark; one of an unknown class is wrapped in ForeignReadLimit.

    Connectors have limits with the names of Spark's classes, such as Delta's own ReadMaxBytes.
    """
    match str(limit.getClass().getName()).removeprefix(_PACKAGE):
        case "ReadAllAvailable":
            return ALL_AVAILABLE
        case "ReadMaxRows":
            return ReadMaxRows(limit.maxRows())
        case "ReadMinRows":
            return ReadMinRows(limit.minRows(), limit.maxTriggerDelayMs())
        case "ReadMaxFiles":
            return ReadMaxFiles(limit.maxFiles())
        case "ReadMaxBytes":
            return ReadMaxBytes(limit.maxBytes())
        case "CompositeReadLimit":
            return CompositeReadLimit(tuple(map(from_jvm, limit.getReadLimits())))
        case _:
            return ForeignReadLimit(limit)


def to_jvm(jvm: Jvm, limit: ReadLimit) -> Any:
    """Convert a limit of the engine to Spark's class."""
    make = jvm.cls(_INTERFACE)
    match limit:
        case ReadAllAvailable():
            return make.allAvailable()
        case ReadMaxRows(rows):
            return make.maxRows(rows)
        case ReadMinRows(rows, delay):
            return make.minRows(rows, delay)
        case ReadMaxFiles(files):
            return make.maxFiles(files)
        case ReadMaxBytes(size):
            return make.maxBytes(size)
        case CompositeReadLimit(limits):
            return make.compositeLimit(jvm.array(make, (to_jvm(jvm, part) for part in limits)))
        case ForeignReadLimit():
            return limit.jlimit
        case _:
            raise ExecutionError(f"Spark has no read limit for {limit}")


@dataclass(frozen=True)
class ForeignReadLimit(ReadLimit):
    """A limit of a class that a connector defines; only its source can interpret it."""

    jlimit: Any

    def __str__(self) -> str:
        return str(self.jlimit.toString())
