"""Penstock: a micro-batch stream-execution engine in Python that drives Spark.

The public names are imported when they are first used, so that code that needs no Spark, such as
the checkpoint tools, does not import PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock import sinks as sinks
    from penstock.api.batch_writer import BatchWriter
    from penstock.api.exceptions import StreamingQueryException
    from penstock.api.install import install, uninstall
    from penstock.api.lineage import Lineage, lineage
    from penstock.api.manager import StreamingQueryManager, streams
    from penstock.api.query import StreamingQuery
    from penstock.api.reader import read_stream
    from penstock.api.tracing import Tracing, trace_queries
    from penstock.api.writer import DataStreamWriter, write_stream
    from penstock.connectors import PythonSink, PythonSource, SinkBatch
    from penstock.debug.replay import Replay, replay
    from penstock.engine.after_query import AfterQuery
    from penstock.engine.cron import Cron
    from penstock.engine.hooks import BatchInfo
    from penstock.engine.polling import WhenIdle
    from penstock.engine.read_limit import (
        CompositeReadLimit,
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        ReadMinRows,
    )
    from penstock.engine.triggers import (
        Admission,
        Schedule,
        Surroundings,
        Trigger,
        TriggerExecutor,
    )
    from penstock.engine.when_backlog import WhenBacklog
    from penstock.errors import PenstockError
    from penstock.observe.observatory import snapshots
    from penstock.observe.snapshot import QuerySnapshot
    from penstock.observe.watch import watch
    from penstock.web.metrics import serve_metrics
    from penstock.web.server import serve_web

__version__ = VERSION

_HOMES = {
    "Admission": "penstock.engine.triggers",
    "AfterQuery": "penstock.engine.after_query",
    "BatchInfo": "penstock.engine.hooks",
    "BatchWriter": "penstock.api.batch_writer",
    "CompositeReadLimit": "penstock.engine.read_limit",
    "Cron": "penstock.engine.cron",
    "DataStreamWriter": "penstock.api.writer",
    "Lineage": "penstock.api.lineage",
    "PenstockError": "penstock.errors",
    "PythonSink": "penstock.connectors",
    "PythonSource": "penstock.connectors",
    "QuerySnapshot": "penstock.observe.snapshot",
    "ReadAllAvailable": "penstock.engine.read_limit",
    "ReadLimit": "penstock.engine.read_limit",
    "ReadMaxBytes": "penstock.engine.read_limit",
    "ReadMaxFiles": "penstock.engine.read_limit",
    "ReadMaxRows": "penstock.engine.read_limit",
    "ReadMinRows": "penstock.engine.read_limit",
    "Replay": "penstock.debug.replay",
    "Schedule": "penstock.engine.triggers",
    "SinkBatch": "penstock.connectors",
    "StreamingQuery": "penstock.api.query",
    "StreamingQueryException": "penstock.api.exceptions",
    "StreamingQueryManager": "penstock.api.manager",
    "Surroundings": "penstock.engine.triggers",
    "Tracing": "penstock.api.tracing",
    "Trigger": "penstock.engine.triggers",
    "TriggerExecutor": "penstock.engine.triggers",
    "WhenBacklog": "penstock.engine.when_backlog",
    "WhenIdle": "penstock.engine.polling",
    "install": "penstock.api.install",
    "lineage": "penstock.api.lineage",
    "read_stream": "penstock.api.reader",
    "replay": "penstock.debug.replay",
    "serve_metrics": "penstock.web.metrics",
    "serve_web": "penstock.web.server",
    "snapshots": "penstock.observe.observatory",
    "streams": "penstock.api.manager",
    "trace_queries": "penstock.api.tracing",
    "uninstall": "penstock.api.install",
    "watch": "penstock.observe.watch",
    "write_stream": "penstock.api.writer",
}

__all__ = [
    "Admission",
    "AfterQuery",
    "BatchInfo",
    "BatchWriter",
    "CompositeReadLimit",
    "Cron",
    "DataStreamWriter",
    "Lineage",
    "PenstockError",
    "PythonSink",
    "PythonSource",
    "QuerySnapshot",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "ReadMinRows",
    "Replay",
    "Schedule",
    "SinkBatch",
    "StreamingQuery",
    "StreamingQueryException",
    "StreamingQueryManager",
    "Surroundings",
    "Tracing",
    "Trigger",
    "TriggerExecutor",
    "WhenBacklog",
    "WhenIdle",
    "__version__",
    "install",
    "lineage",
    "read_stream",
    "replay",
    "serve_metrics",
    "serve_web",
    "snapshots",
    "streams",
    "trace_queries",
    "uninstall",
    "watch",
    "write_stream",
]


if not TYPE_CHECKING:  # with this function a type checker would accept any attribute

    def __getattr__(name: str) -> Any:
        if name == "sinks":
            return importlib.import_module("penstock.sinks")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
