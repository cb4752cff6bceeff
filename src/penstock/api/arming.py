"""Faults for queries that a test does not start itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.engine.faults import NO_FAULTS, FaultInjector

_armed = NO_FAULTS


def armed_faults() -> FaultInjector:
    """What a query passes through whose writer was given no faults of its own."""
    return _armed


@contextlib.contextmanager
def arming(faults: FaultInjector) -> Iterator[None]:
    """Let every query that is started meanwhile, on any thread, go through `faults`.

    A writer's own `passing_through` comes first.
    """
    global _armed
    before, _armed = _armed, faults
    try:
        yield
    finally:
        _armed = before
