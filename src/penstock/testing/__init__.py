"""The test kit: memory stream, manual clock, stepping, scripts, crash test.

The names are imported when they are first used, as those of `penstock` are, so that importing
this package does not import PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api.quiet_session import quiet_session
    from penstock.engine.faults import FaultInjector, FaultPoint
    from penstock.testing.collect_sink import CollectSink, Delivery
    from penstock.testing.crash_report import CrashReport, Trial
    from penstock.testing.crashing import Workspace, crash_test
    from penstock.testing.kill import KillAt
    from penstock.testing.manual_clock import ManualClock
    from penstock.testing.memory_stream import MemoryStream
    from penstock.testing.script import StreamScript
    from penstock.testing.script_text import ScriptError

_HOMES = {
    "CollectSink": "penstock.testing.collect_sink",
    "CrashReport": "penstock.testing.crash_report",
    "Delivery": "penstock.testing.collect_sink",
    "FaultInjector": "penstock.engine.faults",
    "FaultPoint": "penstock.engine.faults",
    "KillAt": "penstock.testing.kill",
    "ManualClock": "penstock.testing.manual_clock",
    "MemoryStream": "penstock.testing.memory_stream",
    "ScriptError": "penstock.testing.script_text",
    "StreamScript": "penstock.testing.script",
    "Trial": "penstock.testing.crash_report",
    "Workspace": "penstock.testing.crashing",
    "crash_test": "penstock.testing.crashing",
    "quiet_session": "penstock.api.quiet_session",
}

__all__ = [
    "CollectSink",
    "CrashReport",
    "Delivery",
    "FaultInjector",
    "FaultPoint",
    "KillAt",
    "ManualClock",
    "MemoryStream",
    "ScriptError",
    "StreamScript",
    "Trial",
    "Workspace",
    "crash_test",
    "quiet_session",
]


if not TYPE_CHECKING:  # with this function a type checker would accept any attribute

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'penstock.testing' has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
