"""A connection to a database, opened by Spark's JDBC data source, without a Python driver."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from penstock.errors import ExecutionError
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of, joined, records_of

_logger = logging.getLogger(__name__)

Parameter = str | int | None


class JdbcSession:
    """A connection, to be used on one thread. A context manager, which closes it.

    Each statement is a transaction, except inside `transaction`. Errors of the database are raised
    as ExecutionError.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        """`options` are those of Spark's JDBC data source: `url`, `dbtable`, `driver`, ..."""
        jvm = Jvm.of(spark)
        with _database_errors("connecting, with the driver " + options.get("driver", "of the URL")):
            self._session = jvm.java.start.jdbc(jvm.scala_map(options))

    def __enter__(self) -> JdbcSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._session.close()
        except Py4JError:
            _logger.debug("A JDBC connection could not be closed", exc_info=True)

    @property
    def quote(self) -> str:
        """The string that quotes an identifier; empty if the database has none."""
        with _database_errors("reading the metadata of the database"):
            return str(self._session.quote())

    def update(self, sql: str, *parameters: Parameter) -> int:
        """Execute a statement that returns no rows; returns the number of changed rows."""
        with _database_errors(sql):
            return int(self._session.update(sql, _encoded(parameters)))

    def insert(self, sql: str, *parameters: Parameter) -> bool:
        """Like `update`; False if a row with the same key exists. Roll back then."""
        with _database_errors(sql):
            return bool(self._session.insert(sql, _encoded(parameters)))

    def query(self, sql: str, *parameters: Parameter) -> list[list[str | None]]:
        """The rows of a query, their values as text."""
        with _database_errors(sql):
            answer = self._session.query(sql, _encoded(parameters))
        return [[value[1:] if value else None for value in record] for record in records_of(answer)]

    def columns(self, table: str) -> list[str] | None:
        """The names of the columns of a table; None if the database says that it is missing."""
        sql = f"SELECT * FROM {table} WHERE 1 = 0"
        with _database_errors(sql):
            answer = self._session.columns(sql)
        return None if answer is None else fields_of(answer)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Context manager: commits the statements in it, or rolls them back if it raises."""
        with _database_errors("beginning a transaction"):
            self._session.begin()
        try:
            yield
        except BaseException:
            with contextlib.suppress(Py4JError):  # a lost connection is rolled back anyway
                self._session.rollback()
            raise
        with _database_errors("committing a transaction"):
            self._session.commit()


def _encoded(parameters: tuple[Parameter, ...]) -> str:
    return joined(_typed(parameter) for parameter in parameters)


def _typed(parameter: Parameter) -> str:
    if parameter is None:
        return "0"
    return f"n{parameter}" if isinstance(parameter, int) else f"t{parameter}"


@contextlib.contextmanager
def _database_errors(doing: str) -> Iterator[None]:
    """Context manager: raises an exception of the JDBC driver as ExecutionError."""
    try:
        yield
    except Py4JJavaError as exc:
        error: Any = exc.java_exception
        raise ExecutionError(f"The database failed: {error.toString()}\nIn: {doing}") from exc
