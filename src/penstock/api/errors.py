"""A query's failure in the shape PySpark's users know."""

from __future__ import annotations

import pyspark.errors

from penstock.errors import ExecutionError, StreamFailedError

_CONDITION = "STREAM_FAILED"
_SQL_STATE = "XXKST"


class StreamingQueryException(pyspark.errors.StreamingQueryException):
    """Why a query died, caught by whoever catches PySpark's exception of that name.

    `__cause__` is the error itself, with its own Python traceback if it came from Python.
    """

    def __init__(self, failure: StreamFailedError) -> None:
        message = f"{failure} SQLSTATE: {_SQL_STATE}\n{failure.debug}"
        super().__init__(message=message)
        self.start_offset = failure.start_offset
        self.end_offset = failure.end_offset
        self.__cause__ = failure.__cause__

    def getCondition(self) -> str:
        return _CONDITION

    def getErrorClass(self) -> str:
        return _CONDITION

    def getSqlState(self) -> str:
        return _SQL_STATE

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
        pyspark.errors.IllegalArgumentException.__init__(self, message=message)
