"""The writer that starts a query, with PySpark's interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter as PySparkDataStreamWriter

from penstock.api.advice import warn_of_delivery, warn_of_options_without_effect
from penstock.api.exceptions import pyspark_errors
from penstock.api.manager import streams
from penstock.api.process import PROCESS
from penstock.api.quarantine_rules import quarantine_rules
from penstock.api.query import StreamingQuery
from penstock.api.query_start import QueryStart
from penstock.api.restart_policy import FATAL, RestartPolicy
from penstock.api.sink_specs import AnySink, described, sink_spec
from penstock.api.writer_output import OptionValue, WriterOutput, flatten
from penstock.api.writer_triggers import (
    checked_trigger,
    pyspark_trigger,
    require_limits,
    unsupported_trigger,
)
from penstock.connectors import PythonSink
from penstock.engine.clock import Clock
from penstock.engine.durations import parse_duration
from penstock.engine.faults import NO_FAULTS, FaultInjector
from penstock.engine.hooks import Hook, HookPoint, Hooks
from penstock.engine.named_sinks import NamedSink
from penstock.engine.quarantine import QuarantineRules
from penstock.engine.triggers import ManualTrigger, ProcessingTimeTrigger, Trigger
from penstock.spark.jvm.support import require_supported
from penstock.spark.plan.plan_advice import warn_of_misspelt_sink_options
from penstock.spark.session.call_site import current_call_site
from penstock.spark.sinks.sink_names import named_writer
from penstock.spark.start import StartRequest


class DataStreamWriter(PySparkDataStreamWriter):
    """Configures and starts a query on a streaming DataFrame.

    Has the methods of PySpark's class of the same name and, in addition, `sink`, `to`, `pace`,
    `quarantine`, `stepped`, `hooks`, `restart`, `clock` and `inject_faults`; `trigger` takes a
    Trigger too. Every setting of PySpark's is made on PySpark's own writer as well, so that an
    invalid one raises PySpark's error at the same call. `start` and `toTable` start the query.
    """

    def __init__(self, df: DataFrame) -> None:
        require_supported(df.sparkSession)
        super().__init__(df)
        self._output = WriterOutput()
        self._trigger: Trigger = ProcessingTimeTrigger(0)
        self._refused_trigger: str | None = None
        self._clock: Clock | None = None
        self._faults: FaultInjector = NO_FAULTS
        self._hooks = Hooks()
        self._pace_ms: int | None = None
        self._restart_policy: RestartPolicy | None = None
        self._restart_clock: Clock | None = None
        self._quarantine: QuarantineRules | None = None

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        """Set the output mode: `append` (the default), `complete` or `update`."""
        super().outputMode(outputMode)
        self._output.mode = outputMode
        return self

    def format(self, source: str) -> DataStreamWriter:
        """Set the format of the sink: `parquet`, `console`, `memory`, ..."""
        super().format(source)
        self._output.use_format(source)
        return self

    def option(self, key: str, value: OptionValue) -> DataStreamWriter:
        """Set an option of the sink, or `checkpointLocation`. None removes it."""
        super().option(key, value)
        self._output.set_option(key, value)
        return self

    def options(self, **options: OptionValue) -> DataStreamWriter:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> DataStreamWriter:
        """Set the columns by which a file sink partitions its output."""
        super().partitionBy(*cols)
        self._output.partition_columns = flatten(cols)
        return self

    def clusterBy(self, *cols: Any) -> DataStreamWriter:
        """Set the clustering columns, for tables that support clustering."""
        super().clusterBy(*cols)
        self._output.clustering_columns = flatten(cols)
        return self

    def queryName(self, queryName: str) -> DataStreamWriter:
        """Set the name of the query, unique among the active queries of the session."""
        super().queryName(queryName)
        self._output.options["queryName"] = queryName
        return self

    def name(self, sinkName: str) -> DataStreamWriter:
        """Set the name of the sink, which is recorded in the commit log if the session enables it.

        The method exists in Spark's Scala API, but not yet in PySpark's.
        """
        self._jwrite = named_writer(self._df.sparkSession, self._jwrite, sinkName)
        self._output.sink_name = sinkName
        return self

    def trigger(
        self,
        trigger: Trigger | None = None,
        /,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> DataStreamWriter:
        """Set the trigger: by one of PySpark's arguments, or a Trigger such as `Cron`.

        `start` raises UnsupportedError for `continuous` and `realTime`. Raises UnknownTriggerError
        for an object that is not a Trigger.
        """
        if trigger is not None:
            others = (processingTime, once, continuous, availableNow, realTime)
            self._trigger = checked_trigger(trigger, others)
            self._refused_trigger = None
            return self
        real_time = {} if realTime is None else {"realTime": realTime}  # not in every PySpark
        super().trigger(  # type: ignore[call-overload]  # PySpark checks the arguments
            processingTime=processingTime,
            once=once,
            continuous=continuous,
            availableNow=availableNow,
            **real_time,
        )
        chosen = pyspark_trigger(self._df.sparkSession, processingTime, once, availableNow)
        refused = "continuous" if continuous is not None else "realTime"
        self._refused_trigger = refused if chosen is None else None
        self._trigger = chosen or self._trigger
        return self

    def pace(self, duration: str) -> DataStreamWriter:
        """Set the size of each batch so that it lasts about `duration`, such as `10 seconds`.

        The engine sets the read limits of the sources: small at first, larger while there is more
        to read, and smaller at once after a slow batch, within the limits that the sources were
        configured with. The query fails with PaceError if no source takes limits.
        """
        self._pace_ms = parse_duration(duration, "pace")
        return self

    def foreach(self, f: Any) -> DataStreamWriter:
        """Process every row with a function, or an object with `open`, `process` and `close`."""
        super().foreach(f)
        self._output.use_foreach(f)
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        """Call `func(df, batch_id)` with every batch, in this process.

        Delivery is at least once: after a failure it is called again with the same batch.
        """
        self._output.use_batch_function(func)
        return self

    def sink(self, sink: PythonSink) -> DataStreamWriter:
        """Write every batch to a sink written in Python; see `PythonSink`."""
        self._output.use_python_sink(sink)
        return self

    def to(
        self,
        name: str,
        sink: AnySink,
        *,
        where: str | Column | None = None,
        parallel: bool = False,
        retries: int = 0,
        backoff: float = 1.0,
        max_backoff: float = 60.0,
        replaces: str | None = None,
    ) -> DataStreamWriter:
        """Write every batch to this sink as well; call it once for each sink of the query.

        A batch is computed once and then given to each sink. A sink that has finished it does not
        get it again, even if another sink fails or the process ends before the batch is committed.
        A sink whose own write was interrupted gets the batch again, with the same id and rows.

        `sink` is a function `(df, batch_id)`, a PythonSink or a BatchWriter. `name` identifies it
        in the checkpoint. It gets the rows for which `where` holds. Sinks are called in order,
        those with `parallel` at the same time, each on a thread of its own. If the sink raises, it
        is called again up to `retries` times, first after `backoff` seconds, then after twice as
        long, up to `max_backoff`. A sink that is added later starts with the next batch; one with
        `replaces` continues where the sink of that name stopped.
        """
        named = NamedSink(name, described(sink), parallel, retries, backoff, max_backoff, replaces)
        self._output.many.append(sink_spec(named, sink, where, self._output.many))
        return self

    def inject_faults(self, faults: FaultInjector) -> DataStreamWriter:
        """For tests: call `faults.reach` at every fault point of the query."""
        self._faults = faults
        return self

    def stepped(self, clock: Clock | None = None) -> DataStreamWriter:
        """For tests: run a trigger only when `query.step()` is called, on the given clock."""
        self._trigger = ManualTrigger()
        return self.clock(clock)

    def clock(self, clock: Clock | None) -> DataStreamWriter:
        """For tests: take all times of the query from this clock; see `testing.ManualClock`."""
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
        """Set functions that are called with the BatchInfo of each batch, on the query's thread.

        `before_batch` is called before the batch runs, `after_wal` when its offsets are in the
        offset log, `after_sink` when the sink has written it and `after_commit` when it is in the
        commit log. If one raises, the error is logged and the query continues; with `strict` the
        query fails.
        """
        self._hooks.strict = strict
        given = {
            HookPoint.BEFORE_BATCH: before_batch,
            HookPoint.AFTER_WAL: after_wal,
            HookPoint.AFTER_SINK: after_sink,
            HookPoint.AFTER_COMMIT: after_commit,
        }
        for point, hook in given.items():
            if hook is not None and not callable(hook):
                raise TypeError(f"{point.value} must be a function of a BatchInfo, not {hook!r}")
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
        """Restart the query when it fails, in this process and on its checkpoint.

        The first restart is after `backoff` seconds. The delay doubles with each consecutive
        failure, up to `max_backoff`; after `max_restarts` consecutive restarts the query fails. A
        run that has committed a batch resets the count. An error of a `fatal` class, or caused by
        one, ends the query without a restart; the default is errors that a restart cannot fix.
        The query that `start` returns is the same object over all runs; its `status` describes a
        pending restart. `clock` is for tests.
        """
        policy = RestartPolicy(max_restarts, backoff, max_backoff, fatal)
        self._restart_policy = policy if on_failure else None
        self._restart_clock = clock
        return self

    def quarantine(
        self,
        path: str,
        *,
        after: int = 3,
        max_parts: int = 10,
        max_parts_per_day: int = 100,
    ) -> DataStreamWriter:
        """Put aside the input that makes a batch fail, and continue without it.

        When a batch has failed `after` times, in any number of runs, it is narrowed to the files,
        Kafka records or other smallest parts that fail without the sink. They are recorded in the
        checkpoint and copied to `path`, and the batch runs without them. The batch still fails
        if it does not fail without the sink, if more than `max_parts` parts of it fail, if it has
        several parts and each of them fails, or if that would be more than `max_parts_per_day` in
        24 hours.
        """
        self._quarantine = quarantine_rules(path, after, max_parts, max_parts_per_day)
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
        """Start the query and return it when it is running.

        The arguments are those of PySpark's method: `path` of a file sink, and the settings that
        the other methods of the writer make. Raises what PySpark raises for an invalid query, and
        CheckpointError if the checkpoint cannot be used.
        """
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
        """Start the query with a table as its sink, which is created if it does not exist."""
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

    @pyspark_errors()
    def _start(self, path: str | None, table: str | None) -> StreamingQuery:
        if self._refused_trigger is not None:
            raise unsupported_trigger(self._refused_trigger)
        if self._pace_ms is not None:
            require_limits(self._trigger)
        start = self._query_start(path, table)
        if PROCESS.starter is not None:
            return PROCESS.starter(start)
        query = streams(self._df.sparkSession).start(start)
        self._advise()
        return query

    def _query_start(self, path: str | None, table: str | None) -> QueryStart:
        """The start that the current settings of this writer describe."""
        default = str(self._df.sparkSession.conf.get("spark.sql.sources.default"))
        sink = self._output.request(path, table, default)
        warn_of_misspelt_sink_options(sink.format if table is None else "", sink.options)
        request = StartRequest(
            sink=sink,
            trigger=self._trigger,
            path=path,
            table=table,
            clock=self._clock,
            faults=PROCESS.faults if self._faults is NO_FAULTS else self._faults,
            hooks=self._hooks,
            pace_ms=self._pace_ms,
            quarantine=self._quarantine,
            call_site=current_call_site(),
        )
        return QueryStart(self._df, request, self._restart_policy, self._restart_clock)

    def _advise(self) -> None:
        warn_of_delivery(self._output.format or "")
        warn_of_options_without_effect(self._output.options)


def write_stream(df: DataFrame) -> DataStreamWriter:
    """A writer for a streaming DataFrame, like `df.writeStream`, whose query Penstock runs.

    Raises UnsupportedError if the Spark session is not one that Penstock supports.

        query = (
            penstock.write_stream(df)
            .option("checkpointLocation", "/data/checkpoint")
            .start("/data/output", format="parquet")
        )
    """
    return DataStreamWriter(df)
