"""The way a query is started, with PySpark's names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter as PySparkDataStreamWriter

from penstock.api.advice import warn_of_delivery, warn_of_options_without_effect
from penstock.api.arming import armed_faults
from penstock.api.intercept import start_interceptor
from penstock.api.manager import streams
from penstock.api.query import StreamingQuery
from penstock.api.restart import FATAL, RestartingQuery, RestartPolicy
from penstock.api.sink import PythonSink
from penstock.engine.clock import Clock
from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.hooks import Hook, HookPoint, Hooks
from penstock.engine.stepping import StepGate
from penstock.engine.stream_execution import StreamExecution
from penstock.engine.triggers import (
    AvailableNowTrigger,
    ManualTrigger,
    OneTimeTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from penstock.errors import ExecutionError, UnsupportedError
from penstock.spark.session_facts import processing_time_trigger
from penstock.spark.sink_factory import SinkRequest
from penstock.spark.start import StartRequest, prepare_query
from penstock.spark.support import require_supported

OptionValue = bool | float | int | str | None


class DataStreamWriter(PySparkDataStreamWriter):
    """Says what becomes of a streaming DataFrame; `start` or `toTable` makes it so.

    Every setting is made on PySpark's own writer first, which this is too, so that a mistake is
    found where and as PySpark finds it.
    """

    def __init__(self, df: DataFrame) -> None:
        require_supported(df.sparkSession)
        super().__init__(df)
        self._format: str | None = None
        self._output_mode = "append"
        self._options: dict[str, str] = {}
        self._partition_columns: list[str] | None = None
        self._clustering_columns: list[str] | None = None
        self._trigger: Trigger = ProcessingTimeTrigger(0)
        self._refused_trigger: str | None = None
        self._foreach: Any = None
        self._batch_function: Callable[[DataFrame, int], None] | None = None
        self._batch_function_name: str | None = None
        self._sink_name: str | None = None
        self._clock: Clock | None = None
        self._faults: FaultInjector = NO_FAULTS
        self._hooks = Hooks()
        self._restart_policy: RestartPolicy | None = None
        self._restart_clock: Clock | None = None

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        """`append`, `complete` or `update`."""
        super().outputMode(outputMode)
        self._output_mode = outputMode
        return self

    def format(self, source: str) -> DataStreamWriter:
        """The kind of sink: `parquet`, `console`, `memory`, ..."""
        super().format(source)
        self._format = source
        self._foreach = self._batch_function = self._batch_function_name = None
        return self

    def option(self, key: str, value: OptionValue) -> DataStreamWriter:
        """An option of the sink, or `checkpointLocation`."""
        super().option(key, value)
        for known in [known for known in self._options if known.lower() == key.lower()]:
            del self._options[known]
        if value is not None:
            self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: OptionValue) -> DataStreamWriter:
        """Several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> DataStreamWriter:
        """The columns by which a file sink lays out its directories."""
        super().partitionBy(*cols)
        self._partition_columns = _flatten(cols)
        return self

    def clusterBy(self, *cols: Any) -> DataStreamWriter:
        """The columns by which a table that supports it is clustered."""
        super().clusterBy(*cols)
        self._clustering_columns = _flatten(cols)
        return self

    def queryName(self, queryName: str) -> DataStreamWriter:
        """A name, unique among the running queries of the session."""
        super().queryName(queryName)
        self._options["queryName"] = queryName
        return self

    def name(self, sinkName: str) -> DataStreamWriter:
        """A name for the sink, which the commit log keeps if the session has sinks named.

        Scala's writer has this method, PySpark's has not yet.
        """
        self._jwrite = self._jwrite.name(sinkName)
        self._sink_name = sinkName
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> DataStreamWriter:
        """When batches run. Continuous and real-time mode are refused at the start."""
        super().trigger(  # type: ignore[call-overload,misc]  # PySpark checks it
            processingTime=processingTime,
            once=once,
            continuous=continuous,
            availableNow=availableNow,
            realTime=realTime,
        )
        self._refused_trigger = None
        if processingTime is not None:
            self._trigger = processing_time_trigger(self._df.sparkSession, processingTime)
        elif once is not None:
            self._trigger = OneTimeTrigger()
        elif availableNow is not None:
            self._trigger = AvailableNowTrigger()
        else:
            self._refused_trigger = "continuous" if continuous is not None else "realTime"
        return self

    def foreach(self, f: Any) -> DataStreamWriter:
        """Hand every row to a function, or to an object with `open`, `process` and `close`."""
        super().foreach(f)
        self._format, self._foreach = "foreach", f
        self._batch_function = self._batch_function_name = None
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        """Hand every batch, with its id, to a function. It is called in this process."""
        if not callable(func):
            raise PySparkTypeError(
                errorClass="NOT_CALLABLE",
                messageParameters={"arg_name": "func", "arg_type": type(func).__name__},
            )
        self._format, self._batch_function = "foreachBatch", func
        self._foreach = self._batch_function_name = None
        return self

    def sink(self, sink: PythonSink) -> DataStreamWriter:
        """Hand every batch to a sink written in Python."""
        self.foreachBatch(lambda df, batch_id: sink.add_batch(batch_id, df))
        self._batch_function_name = str(sink)
        return self

    def passing_through(self, faults: FaultInjector) -> DataStreamWriter:
        """For tests: the query goes through `faults` at every point of its protocol."""
        self._faults = faults
        return self

    def stepped(self, clock: Clock | None = None) -> DataStreamWriter:
        """For tests: a trigger each time `query.step()` is called, on the given clock."""
        self._trigger = ManualTrigger(StepGate())
        self._clock = clock
        return self

    def hooks(
        self,
        *,
        before_batch: Hook | None = None,
        after_wal: Hook | None = None,
        after_sink: Hook | None = None,
        after_commit: Hook | None = None,
        strict: bool = False,
    ) -> DataStreamWriter:
        """Functions to be called with each batch's context, on the query's thread.

        One that raises is reported, and the query goes on; with `strict` it fails.
        """
        self._hooks.strict = strict
        given = {
            HookPoint.BEFORE_BATCH: before_batch,
            HookPoint.AFTER_WAL: after_wal,
            HookPoint.AFTER_SINK: after_sink,
            HookPoint.AFTER_COMMIT: after_commit,
        }
        for point, hook in given.items():
            if hook is not None:
                self._hooks.add(point, hook)
        return self

    def restart(
        self,
        *,
        on_failure: bool = True,
        max_restarts: int = 10,
        backoff: float = 1.0,
        max_backoff: float = 60.0,
        fatal: tuple[type[BaseException], ...] = FATAL,
        clock: Clock | None = None,
    ) -> DataStreamWriter:
        """Start the query again, in this process and on its checkpoint, when it fails.

        After `backoff` seconds, then twice as many after each failure in a row, at most
        `max_backoff`; given up after `max_restarts` in a row. A run that has done a batch ends the
        row. An error of a `fatal` class, or caused by one, ends the query at once: by default
        those that another try does not mend. The query that `start` returns stays the same; its
        `status` says what it waits for and why. `clock` is for tests.
        """
        policy = RestartPolicy(max_restarts, backoff, max_backoff, fatal)
        self._restart_policy = policy if on_failure else None
        self._restart_clock = clock
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> StreamingQuery:
        """Start the query; returns once it runs."""
        self._take(format, outputMode, partitionBy, queryName, options)
        return self._start(path=path, table=None)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> StreamingQuery:
        """Start the query into a table, which is made if it does not exist."""
        self._take(format, outputMode, partitionBy, queryName, options)
        return self._start(path=None, table=tableName)

    def _take(
        self,
        format: str | None,
        output_mode: str | None,
        partition_by: str | list[str] | None,
        query_name: str | None,
        options: dict[str, OptionValue],
    ) -> None:
        self.options(**options)
        if output_mode is not None:
            self.outputMode(output_mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if format is not None:
            self.format(format)
        if query_name is not None:
            self.queryName(query_name)

    def _start(self, path: str | None, table: str | None) -> StreamingQuery:
        if self._refused_trigger is not None:
            raise UnsupportedError(
                f"Penstock runs micro-batches; the trigger {self._refused_trigger!r} is not "
                "supported. Use processingTime, once or availableNow, or start this query with "
                "Spark's own engine (df.writeStream)."
            )
        intercept = start_interceptor()
        if intercept is not None:
            return intercept(self)
        if self._restart_policy is not None:
            return self._start_restarting(self._restart_policy, path, table)
        manager = streams(self._df.sparkSession)
        execution, after_start = self._prepare(path, table)
        query = manager.start(execution, self._options)
        after_start()
        self._advise()
        return query

    def _prepare(
        self, path: str | None, table: str | None
    ) -> tuple[StreamExecution, Callable[[], None]]:
        request = StartRequest(
            sink=self._sink_request(),
            trigger=self._trigger_of_this_start(),
            path=path,
            table=table,
            clock=self._clock,
            faults=armed_faults() if self._faults is NO_FAULTS else self._faults,
            hooks=self._hooks,
        )
        on_terminated = streams(self._df.sparkSession).notify_termination
        return prepare_query(self._df, request, on_terminated)

    def _start_restarting(
        self, policy: RestartPolicy, path: str | None, table: str | None
    ) -> StreamingQuery:
        """Start a query that this writer, as it is now, can start again."""
        self._refuse_restarts_that_cannot_be()
        manager = streams(self._df.sparkSession)
        execution, after_start = self._prepare(path, table)
        again, options = self._pinned_to(execution.checkpoint.root), dict(self._options)

        def start_next(query: RestartingQuery) -> bool:
            execution, after_start = again._prepare(path, table)
            is_started = query.adopt(execution, lambda: manager.start_run(execution, options))
            if is_started:
                after_start()
            return is_started

        query = RestartingQuery(execution, policy, start_next, manager.end, self._restart_clock)
        manager.start(execution, options, query)
        after_start()
        self._advise()
        return query

    def _pinned_to(self, checkpoint: str) -> DataStreamWriter:
        """A copy of this writer, as it is now, that goes on from a checkpoint.

        Left to the session, the place could be another at each start.
        """
        pinned = copy.copy(self)
        others = {k: v for k, v in self._options.items() if k.lower() != "checkpointlocation"}
        pinned._options = others | {"checkpointLocation": checkpoint}
        return pinned

    def _advise(self) -> None:
        warn_of_delivery(self._format or "")
        warn_of_options_without_effect(self._options)

    def _refuse_restarts_that_cannot_be(self) -> None:
        if isinstance(self._trigger, ManualTrigger):
            raise ExecutionError("A query that is stepped is not restarted: step() says what fails")
        default = self._df.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
        names = {name.lower() for name in self._options}
        if default is None and "checkpointlocation" not in names:
            raise ExecutionError(
                "A query that is to be restarted needs the option checkpointLocation: a temporary "
                "checkpoint is no place to go on from"
            )

    def _trigger_of_this_start(self) -> Trigger:
        """The trigger; with a gate of its own for each query that is stepped."""
        is_stepped = isinstance(self._trigger, ManualTrigger)
        return ManualTrigger(StepGate()) if is_stepped else self._trigger

    def _sink_request(self) -> SinkRequest:
        return SinkRequest(
            format=self._format or str(self._df.sparkSession.conf.get("spark.sql.sources.default")),
            output_mode=self._output_mode,
            options=dict(self._options),
            partition_columns=self._partition_columns,
            clustering_columns=self._clustering_columns,
            foreach=self._foreach,
            batch_function=self._batch_function,
            batch_function_name=self._batch_function_name,
            name=self._sink_name,
        )


def write_stream(df: DataFrame) -> DataStreamWriter:
    """A writer for a streaming DataFrame, like `df.writeStream`, whose query Penstock runs."""
    return DataStreamWriter(df)


def _flatten(columns: tuple[Any, ...]) -> list[str]:
    """PySpark's two ways of giving columns, one by one or as one list, as a list."""
    if len(columns) == 1 and isinstance(columns[0], (list, tuple)):
        return list(columns[0])
    return list(columns)
