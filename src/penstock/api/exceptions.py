"""A query's failure, and Penstock's own errors, in the shape PySpark's users know."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import pyspark.errors
from pyspark.errors import PySparkException

from penstock.errors import Condition, ExecutionError, PenstockError, StreamFailedError

_CONDITION = "STREAM_FAILED"
_SQL_STATE = "XXKST"


class StreamingQueryException(pyspark.errors.StreamingQueryException):
    """Why a query died, caught by whoever catches PySpark's exception of that name.

    `__cause__` is the error itself, with its own Python traceback if it came from Python.
    `checkpoint` is the location of the query's checkpoint, `batch_id` the batch that was planned
    and has failed, if there was one.
    """

    def __init__(self, failure: StreamFailedError) -> None:
        message = f"{failure} SQLSTATE: {_SQL_STATE}\n{failure.debug}"
        super().__init__(message=message)
        self._parameters = failure.parameters
        self.checkpoint = failure.checkpoint
        self.batch_id = failure.batch_id
        self.start_offset = failure.start_offset
        self.end_offset = failure.end_offset
        self.__cause__ = failure.__cause__ and as_pyspark(failure.__cause__)

    def getCondition(self) -> str:
        return _CONDITION

    def getErrorClass(self) -> str:
        return _CONDITION

    def getSqlState(self) -> str:
        return _SQL_STATE

    def getMessageParameters(self) -> dict[str, str]:
        return self._parameters

    # Under these two names PySpark's own exceptions keep the message and the cause, and people
    # have come to look for them there.

    @property
    def _desc(self) -> str:
        return str(self)

    @property
    def _cause(self) -> BaseException | None:
        return self.__cause__

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__


class NameTakenError(ExecutionError, pyspark.errors.IllegalArgumentException):
    """A query of that name runs already; of PySpark's class, which its users may be catching."""

    def __init__(self, message: str) -> None:
        ExecutionError.__init__(self, message)
        pyspark.errors.IllegalArgumentException.__init__(self, message=message)


class _Both(PySparkException):
    """What an error of both trees has of PySpark's: the condition, from where Penstock keeps it."""

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
    """An error of Penstock's as one that is also of PySpark's class; any other as it is.

    The class of the result is below both classes, so that either may be caught. The errors that
    caused it are made so too.
    """
    if not isinstance(error, PenstockError) or isinstance(error, PySparkException):
        return error
    both = _both(type(error))  # type: ignore[arg-type]  # a class is hashable
    twin: BaseException = both.__new__(both, *error.args)
    vars(twin).update(vars(error))
    PySparkException.__init__(twin, message=str(error))  # type: ignore[arg-type]  # it is one
    twin.args = error.args
    twin.__cause__ = error.__cause__ and as_pyspark(error.__cause__)
    return twin.with_traceback(error.__traceback__)


@functools.cache
def _both(ours: type[PenstockError]) -> type[BaseException]:
    theirs = getattr(pyspark.errors, ours.pyspark_class)
    return type(
        ours.__name__, (_Both, ours, theirs), {"__module__": __name__, "__doc__": ours.__doc__}
    )


@contextlib.contextmanager
def pyspark_errors() -> Iterator[None]:
    """Raise what leaves Penstock as `as_pyspark` has it."""
    try:
        yield
    except PenstockError as error:
        both = as_pyspark(error)
        if both is error:
            raise
        raise both from both.__cause__
