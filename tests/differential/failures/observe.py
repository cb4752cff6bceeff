"""Runs a failing program on an engine and records the error, without ids and directories."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark.errors
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent, StreamingQueryListener

from penstock.spark.jvm.pyspark_api import HAS_CONDITIONS, condition_of
from tests.differential.failures.stage import Failure, Stage
from tests.differential.runs import Engine
from tests.streams import PATIENCE

_VARYING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"@[0-9a-f]{4,8}\b"), "@<object>"),
    (re.compile(r"\bFILE:(?=<home>)"), "file:"),  # see decision 8
    (re.compile(r"#\d+L?\b"), "#<column>"),
    (re.compile(r"\n\t(at|\.\.\.) [^\n]*"), ""),  # the stack of an error without a condition
    (re.compile(r"\bjob \d+|\bstage [\d.]+|\bTID \d+|\btask [\d.]+", re.IGNORECASE), "<job>"),
)
_STATUS = "Terminated with exception: "


@dataclass(frozen=True)
class Error:
    """An error: its PySpark class, and the fields of Spark's error framework."""

    kind: str
    condition: str | None
    sql_state: str | None
    parameters: dict[str, str] | None
    text: str


@dataclass(frozen=True)
class Seen:
    """How a program failed. If `start` raised the error, the other fields are None."""

    raised_by: str
    error: Error
    cause: Error | None = None
    told_listeners: str | None = None
    status: str | None = None

    @property
    def reason(self) -> Error:
        """The cause of a failed query, or the error of `start`."""
        return self.error if self.cause is None else self.cause


class _Ends(StreamingQueryListener):
    """Records the event of the termination of a failed query."""

    def __init__(self) -> None:
        self.heard = threading.Event()
        self.event: QueryTerminatedEvent | None = None

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if event.exception is not None:
            self.event = event
            self.heard.set()


def provoke(failure: Failure, spark: SparkSession, engine: Engine, home: Path) -> Seen:
    """Run a failing program and return its error."""
    home.mkdir(parents=True)
    stage = Stage(spark.newSession(), engine, home)
    ends = _Ends()
    stage.session.streams.addListener(ends)
    try:
        failure.provoke(stage)
    except (PySparkException, Py4JJavaError) as error:
        return _seen(error, stage, ends)
    finally:
        stage.session.streams.removeListener(ends)
    raise AssertionError(f"{failure.name} does not fail on {engine.value}")


def _seen(error: Exception, stage: Stage, ends: _Ends) -> Seen:
    if not isinstance(error, pyspark.errors.StreamingQueryException):
        return Seen("start", _error(error, stage))
    assert ends.heard.wait(PATIENCE)
    assert ends.event is not None
    cause = getattr(error, "_cause" if HAS_CONDITIONS else "cause")  # set by both engines
    return Seen(
        "the query",
        _error(error, stage),
        _error(cause, stage),
        ends.event.errorClassOnException,
        _plain(str(stage.query.status["message"]).removeprefix(_STATUS), stage),
    )


def _error(error: BaseException, stage: Stage) -> Error:
    kind = next(
        (c.__name__ for c in type(error).__mro__ if c in vars(pyspark.errors).values()),
        type(error).__name__,
    )
    java_exception = getattr(error, "java_exception", None)
    text = _plain(str(error if java_exception is None else java_exception.getMessage()), stage)
    if not isinstance(error, PySparkException):
        return Error(kind, None, None, None, text)
    parameters = error.getMessageParameters()
    plain = {k: _plain(v, stage) for k, v in parameters.items()} if parameters else parameters
    return Error(kind, condition_of(error), error.getSqlState(), plain, text)


def _plain(text: str, stage: Stage) -> str:
    text = text.replace(str(stage.home), "<home>").replace(stage.engine.name, "<engine>")
    return without_varying_parts(text)


def without_varying_parts(text: str) -> str:
    """The text of an error without ids, objects, stack traces and the numbers of jobs."""
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text
