"""Penstock's errors as subclasses of PySpark's exceptions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyspark.errors
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from penstock.errors import Condition, ExecutionError, PenstockError, StreamFailedError
from penstock.spark.jvm.pyspark_api import HAS_CONDITIONS

if TYPE_CHECKING:
    from pyspark.errors import QueryContext  # since Spark 4.0

_CONDITION = "STREAM_FAILED"
_SQL_STATE = "XXKST"


class StreamingQueryException(captured.StreamingQueryException):
    """The failure of a query: a subclass of PySpark's exceptions of the same name.

    Raised by `awaitTermination` and the other methods that wait for the query, and returned by
    `StreamingQuery.exception()`. `__cause__` is the original error, with its Python traceback if
    it was raised in Python. `checkpoint` is the location of the query's checkpoint. `batch_id` is
    the planned batch that failed, None if no batch was planned. `start_offset` and `end_offset`
    are the offsets of that batch.
    """

    def __init__(self, failure: StreamFailedError) -> None:
        text = f"[{_CONDITION}] {failure}"
        if HAS_CONDITIONS:
            text += f" SQLSTATE: {_SQL_STATE}\n{failure.debug}"
        PySparkException.__init__(self, message=text)  # that of the superclass asks the JVM
        self._origin = None
        # Programs read the message and the cause in these attributes: PySpark's exceptions have
        # them, with or without an underscore.
        self.__cause__ = failure.__cause__ and as_pyspark(failure.__cause__)
        self._desc = self.desc = text
        self._cause = self.cause = self.__cause__  # type: ignore[assignment]  # may be any error
        self._parameters = failure.parameters
        self.checkpoint = failure.checkpoint
        self.batch_id = failure.batch_id
        self.start_offset = failure.start_offset
        self.end_offset = failure.end_offset

    def __str__(self) -> str:
        return self._desc

    def getMessage(self) -> str:
        return self._desc

    def getCondition(self) -> str:
        return _CONDITION

    def getErrorClass(self) -> str:
        return _CONDITION

    def getSqlState(self) -> str:
        return _SQL_STATE if HAS_CONDITIONS else None  # type: ignore[return-value]  # as Spark

    def getMessageParameters(self) -> dict[str, str]:
        return self._parameters

    def getQueryContext(self) -> list[QueryContext]:
        return []


class NameTakenError(ExecutionError, pyspark.errors.IllegalArgumentException):
    """A query of that name is already active; also PySpark's IllegalArgumentException."""

    def __init__(self, message: str) -> None:
        ExecutionError.__init__(self, message)
        pyspark.errors.IllegalArgumentException.__init__(self, message=message)


class _ConditionMixin(PySparkException):
    """Implements PySpark's accessors of the error condition on Penstock's `condition`."""

    condition: Condition | None

    def __str__(self) -> str:
        return Exception.__str__(self)

    def getCondition(self) -> str | None:
        return None if self.condition is None else self.condition.name

    def getErrorClass(self) -> str | None:
        return self.getCondition()

    def getSqlState(self) -> str | None:
        return None if self.condition is None else self.condition.sql_state

    def getMessageParameters(self) -> dict[str, str] | None:
        return None if self.condition is None else dict(self.condition.parameters)

    def getMessage(self) -> str:
        return str(self)


def as_pyspark(error: BaseException) -> BaseException:
    """Convert a PenstockError to an error that is also of its class in `pyspark.errors`.

    The class of the result is a subclass of both, so that either can be caught; its text ends with
    the SQLSTATE only if those of this PySpark do. Its causes are converted too. Any other error is
    returned unchanged.
    """
    return _as_pyspark(error, {})


def _as_pyspark(error: BaseException, done: dict[int, BaseException]) -> BaseException:
    """The same; `done` are the errors that are converted already, by `id` of the original."""
    if not isinstance(error, PenstockError) or isinstance(error, PySparkException):
        return error
    if id(error) in done:  # an error may be its own cause
        return done[id(error)]
    combined = _combined_class(type(error))  # type: ignore[arg-type]  # a class is hashable
    converted: BaseException = combined.__new__(combined, *error.args)
    done[id(error)] = converted
    vars(converted).update(vars(error))
    text = error.text(with_sql_state=HAS_CONDITIONS)
    PySparkException.__init__(converted, message=text)  # type: ignore[arg-type]  # it is one
    converted.args = (text,)
    converted.__cause__ = error.__cause__ and _as_pyspark(error.__cause__, done)
    return converted.with_traceback(error.__traceback__)


@functools.cache
def _combined_class(ours: type[PenstockError]) -> type[BaseException]:
    """The class below both `ours` and its counterpart in `pyspark.errors`."""
    theirs = getattr(pyspark.errors, ours.pyspark_class)
    members = {"__module__": __name__, "__doc__": ours.__doc__}
    return type(ours.__name__, (_ConditionMixin, ours, theirs), members)


@contextlib.contextmanager
def pyspark_errors() -> Iterator[None]:
    """Convert a PenstockError raised in the block with `as_pyspark`."""
    try:
        yield
    except PenstockError as error:
        converted = as_pyspark(error)
        if converted is error:
            raise
        raise converted from converted.__cause__
