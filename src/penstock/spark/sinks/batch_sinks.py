"""Adapters of Spark's V1 and V2 sinks and of Python sinks, for the query plan."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from penstock.connectors import PythonSink, SinkBatch
from penstock.errors import PenstockError, UnknownSinkError
from penstock.spark.jvm.failures import of_batch_function
from penstock.spark.jvm.gateway import Jvm
from penstock.spark.jvm.java_side import fields_of

BatchFunction = Callable[[DataFrame, int], None]
"""A function as foreachBatch takes it."""

_TRANSACTIONAL = "org.apache.spark.sql.connector.catalog.TransactionalCatalogPlugin"


class SparkSink(ABC):
    """The sink of a query."""

    def __init__(self, jvm: Jvm, jtable: Any) -> None:
        """Raises UnknownSinkError if `jtable` is neither a V1 nor a V2 sink."""
        fields = fields_of(jvm.java.start.describeSink(jtable))
        description, is_v1, is_v2, reports, writes_files = fields
        if "true" not in (is_v1, is_v2):
            raise UnknownSinkError(f"unknown sink type for {description}")
        self._jvm = jvm
        self.jtable = jtable
        self.is_v2 = is_v2 == "true"
        self._description = description
        self._reports_metrics = reports == "true"
        self.writes_files = writes_files == "true"
        self._output = jvm.java.start.output()

    is_batch_function = False
    """Whether a user function gets each batch, and may leave part of it uncomputed."""

    @property
    def description(self) -> str:
        return self._description

    def metrics(self) -> Mapping[str, str]:
        return dict(self.jtable.metrics()) if self._reports_metrics else {}

    @abstractmethod
    def replaced_by(self, jtable: Any) -> SparkSink:
        """This sink with the table that an analyzer rule has put in the place of its own."""

    @abstractmethod
    def write_node(
        self, jsession: Any, query: Any, query_id: str, options: Any, output_mode: Any
    ) -> Any:
        """The logical plan that writes `query` to this sink; the batch id is set for each batch.

        `jsession` is the session that the batches are planned in.
        """

    @abstractmethod
    def add_batch(self, batch: SinkBatch, execution: Any) -> int | None:
        """Write a planned batch as one SQL execution. Returns the rows written, if known."""


class V2Sink(SparkSink):
    """A sink of the DataSource V2 API: the physical plan writes the rows."""

    def __init__(self, jvm: Jvm, jtable: Any, catalog_and_ident: Any | None = None) -> None:
        super().__init__(jvm, jtable)
        self._catalog_and_ident = catalog_and_ident

    def replaced_by(self, jtable: Any) -> SparkSink:
        return V2Sink(self._jvm, jtable, self._catalog_and_ident)

    def write_node(
        self, jsession: Any, query: Any, query_id: str, options: Any, output_mode: Any
    ) -> Any:
        jvm = self._jvm
        relation = self._relation(jsession)
        in_catalog = self._catalog_and_ident is not None
        return jvm.new(
            "WriteToMicroBatchDataSource",
            relation=relation,
            catalogRelation=jvm.option(relation if in_catalog else None),
            table=self.jtable,
            query=query,
            queryId=query_id,
            writeOptions=options,
            outputMode=output_mode,
            batchId=jvm.none,
        )

    def _relation(self, jsession: Any) -> Any:
        """The table as the target of a write.

        For a transactional catalog it is a reference: each batch resolves it in the session's own
        instance of the catalog, within a transaction of that batch.
        """
        jvm = self._jvm
        create = jvm.module("DataSourceV2Relation").create
        if self._catalog_and_ident is None:
            return create(self.jtable, jvm.none, jvm.none)
        catalog, ident = self._catalog_and_ident._1(), jvm.some(self._catalog_and_ident._2())
        if not jvm.is_instance(catalog, _TRANSACTIONAL):
            return create(self.jtable, jvm.some(catalog), ident)
        own = jsession.sessionState().catalogManager().catalog(catalog.name())
        relation = create(self.jtable, jvm.some(own), ident)
        return jvm.module("V2Reference").createForWriteTarget(relation)

    def add_batch(self, batch: SinkBatch, execution: Any) -> int | None:
        rows: int | None = self._output.write(execution)
        return rows


class V1Sink(SparkSink):
    """A sink of the V1 API: `addBatch` gets each batch as a DataFrame."""

    def __init__(self, session: SparkSession, jsink: Any, catalog_table: Any | None = None) -> None:
        """`session` is the user's, in which the cached data of a table is refreshed."""
        jvm = Jvm.of(session)
        super().__init__(jvm, jsink)
        self._session = session
        self._catalog_table = catalog_table

    def replaced_by(self, jtable: Any) -> SparkSink:
        return V1Sink(self._session, jtable, self._catalog_table)

    def write_node(
        self, jsession: Any, query: Any, query_id: str, options: Any, output_mode: Any
    ) -> Any:
        return self._jvm.new(
            "WriteToMicroBatchDataSourceV1",
            catalogTable=self._jvm.option(self._catalog_table),
            sink=self.jtable,
            query=query,
            queryId=query_id,
            writeOptions=options,
            outputMode=output_mode,
            batchId=self._jvm.none,
        )

    def add_batch(self, batch: SinkBatch, execution: Any) -> int | None:
        self._output.addBatch(self.jtable, batch.batch_id, execution)
        if self._catalog_table is not None:
            name = self._catalog_table.identifier().quotedString()
            self._session._jsparkSession.catalog().refreshTable(name)
        return None


class PythonBatchSink(V1Sink):
    """A Python function that gets each batch: foreachBatch, or a sink written in Python.

    It is called in this process, on the query's thread, so that its errors keep their traceback
    and a debugger stops in it.
    """

    def __init__(
        self,
        session: SparkSession,
        function: BatchFunction | PythonSink,
        description: str | None = None,
    ) -> None:
        jvm = Jvm.of(session)
        # The plan needs a Spark sink; this placeholder is never written to.
        super().__init__(session, jvm.java.start.noSink())
        self._function = function
        self._description = description or self._description
        self._frames: OrdinaryFrames | None = None
        ensure_callback_server_started(jvm.gateway)  # type: ignore[no-untyped-call]

    is_batch_function = True

    def replaced_by(self, jtable: Any) -> SparkSink:
        return self  # the function is the sink, whatever the placeholder is

    def add_batch(self, batch: SinkBatch, execution: Any) -> int | None:
        self.call(execution, lambda df: write_to(self._function, batch, df))
        return None

    def call(self, execution: Any, function: Callable[[DataFrame], None]) -> None:
        """Call a function with a planned batch, inside the SQL execution of the batch."""
        is_called = False

        def run() -> None:
            nonlocal is_called
            batch = self._batch(execution)  # fails if the source cannot plan its partitions
            is_called = True
            function(batch)

        body = _Body(run)
        try:
            self._jvm.cls("SQLExecution").withNewExecutionId(execution, self._jvm.none, body)
        except Exception:
            if body.error is None:
                raise
            is_of_function = is_called and not isinstance(body.error, PenstockError)
            error = of_batch_function(body.error) if is_of_function else body.error
            raise error from body.error.__cause__
        finally:
            body.release()

    def _batch(self, execution: Any) -> DataFrame:
        if self._frames is None:
            self._frames = OrdinaryFrames(self._session, execution)
        return self._frames.of(execution)


def write_to(sink: BatchFunction | PythonSink, batch: SinkBatch, df: DataFrame) -> None:
    """Give a batch to a function or to a sink written in Python."""
    if isinstance(sink, PythonSink):
        sink.write_batch(batch, df)
    else:
        sink(df, batch.batch_id)


class _Body:
    """A Scala Function0 that calls a Python function and stores its exception in `error`."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self.error: BaseException | None = None

    def apply(self) -> None:
        try:
            self._body()
        except BaseException as exc:  # the JVM waits for a response, whatever is raised
            self.error = exc
            raise _BodyFailedError from exc

    def release(self) -> None:
        """Drop the references to the batch: this object lives until the JVM collects its proxy."""
        self._body = _nothing
        self.error = None

    class Java:
        implements = ("scala.Function0",)


def _nothing() -> None:
    """The body after `release`."""


class _BodyFailedError(Exception):
    """Signals to the JVM that a Python function failed; the query reports the error itself."""


def _is_not_reported_elsewhere(record: logging.LogRecord) -> bool:
    return not (record.exc_info and record.exc_info[0] is _BodyFailedError)


# py4j logs every error of a callback with its traceback. The query reports these itself.
for _name in ("py4j.clientserver", "py4j.java_gateway"):
    logging.getLogger(_name).addFilter(_is_not_reported_elsewhere)


class OrdinaryFrames:
    """Converts the batches of a query to ordinary DataFrames in the session of the query."""

    def __init__(self, spark: SparkSession, execution: Any) -> None:
        """`execution` is the execution of any batch of the query."""
        jvm = Jvm.of(spark)
        jsession = execution.sparkSession()
        self._session = SparkSession(spark.sparkContext, jsession)
        self._output = jvm.java.start.output()

    def of(self, execution: Any) -> DataFrame:
        """A planned batch as a DataFrame over its rows, without the streaming plan."""
        return DataFrame(self._output.frame(execution), self._session)
