"""PySpark APIs that differ between lines, detected by import rather than by version."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def _first_module(*names: str) -> Any:
    """The first of the modules that can be imported."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def data_frame_class() -> type[Any]:
    """The class of a classic session's DataFrames, which has their `writeStream`."""
    found: type[Any] = _first_module("pyspark.sql.classic.dataframe", "pyspark.sql").DataFrame
    return found


def wrap_function(context: Any, function: Any, serializer: Any) -> Any:
    """Wrap a Python function for the JVM, with the private API PySpark uses for `foreach`."""
    rdd = _first_module("pyspark.core.rdd", "pyspark.rdd")
    return rdd._wrap_function(context, function, serializer, serializer)


def inheritable_thread(target: Callable[[], None], name: str, session: SparkSession) -> Thread:
    """A thread pinned to its own JVM thread, which inherits this one's local properties."""
    takes_session = "session" in inspect.signature(InheritableThread.__init__).parameters
    more = {"session": session} if takes_session else {}
    return InheritableThread(target=target, name=name, daemon=True, **more)


def query_context_loggers() -> list[logging.Logger]:
    """PySpark's loggers of errors that have a query context, if this PySpark has them."""
    try:
        module = importlib.import_module("pyspark.logger")
    except ModuleNotFoundError:
        return []
    return [module.PySparkLogger.getLogger(name) for name in _LOGGERS]


# Errors.

HAS_CONDITIONS = hasattr(PySparkException, "getCondition")
"""Whether errors have conditions, and messages ending in the SQLSTATE; else error classes."""


def new_error(
    kind: type[PySparkException], condition: str, parameters: Mapping[str, str]
) -> PySparkException:
    """Create a PySpark error, with PySpark's message for a condition."""
    names = ("errorClass", "messageParameters")
    if not HAS_CONDITIONS:
        names = ("error_class", "message_parameters")
    arguments: dict[str, Any] = dict(zip(names, (condition, dict(parameters)), strict=True))
    return kind(**arguments)


def condition_of(holder: Any) -> Any:
    """The condition of a Python or JVM error, read by the method that this line has."""
    ask = holder.getCondition if HAS_CONDITIONS else holder.getErrorClass
    return ask()


def description_of(error: CapturedException) -> str:
    """The message of a JVM error, as PySpark stores it."""
    return str(vars(error).get("_desc", vars(error).get("desc")))


def stack_of(error: CapturedException) -> str | None:
    """The stack trace of a JVM error, as PySpark stores it."""
    found = vars(error).get("_stackTrace", vars(error).get("stackTrace"))
    return str(found) if found else None


# Progress.


class _DictRecord(StreamingQueryProgress, dict[str, Any]):
    """A progress record for PySpark lines whose queries return dicts and listeners get objects."""

    __repr__ = dict.__repr__
    __str__ = dict.__repr__


def progress_record(filled: dict[str, Any], fields: dict[str, Any]) -> StreamingQueryProgress:
    """PySpark's progress record of a trigger, both a dict and an object.

    `filled` has every field that the object needs, `fields` only those Spark writes as JSON.
    """
    made = StreamingQueryProgress.fromJson(filled)
    made._jdict = fields
    for made_source, of_source in zip(made.sources, fields["sources"], strict=True):
        made_source._jdict = of_source
    if isinstance(made, dict):
        return made
    record = _DictRecord.__new__(_DictRecord)
    record.update(fields)
    vars(record).update(vars(made))
    return record
