"""Bisects a batch of a query that a script starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.api.manager import streams
from penstock.api.process import PROCESS
from penstock.api.query import StreamingQuery
from penstock.api.runner import Outcome, run_script
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.api.start import QueryStart
from penstock.checkpoint.tools.locations import local_path
from penstock.debug.bisect_report import BisectReport, brief
from penstock.debug.bisection import Bisection
from penstock.debug.unstarted_query import UnstartedQuery
from penstock.errors import CheckpointError, ExecutionError, PenstockError, UnsupportedError
from penstock.spark.jvm.pyspark_api import query_context_loggers
from penstock.spark.sinks.sink_factory import SinkRequest

_DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"
_PROGRESS_BAR = "spark.ui.showConsoleProgress"


class ScriptOverError(SystemExit):
    """Ends the script after the bisection."""


def bisect_script(
    bisection: Bisection,
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    options: SparkOptions = NO_OPTIONS,
    *,
    with_sink: bool = False,
) -> BisectReport:
    """Run a script as `penstock run` does until it starts the query of the checkpoint.

    The batch is bisected in place of that start, and then the script is ended. Other queries that
    the script starts are not run; their handles are those of terminated queries. The rows are
    discarded, unless `with_sink`: then the script's own function or Python sink is called with the
    rows of each trial.

    Raises PenstockError if the batch cannot be bisected, ExecutionError if the script does not
    start the query, and KeyboardInterrupt if it is interrupted.
    """
    interceptor = _Interceptor(bisection, with_sink)
    with PROCESS.started_by(interceptor), _pyspark_error_logs_disabled():
        code = run_script(script, arguments, options.with_default(_PROGRESS_BAR, "false"))
    if interceptor.error is not None:
        raise interceptor.error
    if interceptor.report is not None:
        return interceptor.report
    if code in (Outcome.INTERRUPTED, Outcome.TERMINATED):
        raise KeyboardInterrupt
    raise ExecutionError(interceptor.not_started_message(script, code))


@contextmanager
def _pyspark_error_logs_disabled() -> Iterator[None]:
    """Disable PySpark's log of errors with a query context: the trials report these errors."""
    loggers = query_context_loggers()
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class _Interceptor:
    """Called in place of each start; bisects the batch of the query of the checkpoint."""

    def __init__(self, bisection: Bisection, with_sink: bool) -> None:
        self._bisection = bisection
        self._with_sink = with_sink
        self._others: list[str] = []
        self.report: BisectReport | None = None
        self.error: BaseException | None = None

    def __call__(self, start: QueryStart) -> StreamingQuery:
        location = _location_of(start)
        if location != os.path.realpath(self._bisection.root):
            self._others.append(location or "a temporary checkpoint")
            query = UnstartedQuery(start.query_name)
            streams(start.df.sparkSession).end(query)
            return query
        try:
            hooks = start.request.hooks if self._with_sink else None
            self.report = self._bisection.run(start.df, self._sink(start), hooks)
        except (PenstockError, KeyboardInterrupt) as exc:
            self.error = exc
        except Exception as exc:
            self.error = ExecutionError(f"The batch could not be bisected: {brief(exc)}")
            self.error.__cause__ = exc
        raise ScriptOverError(0)

    def not_started_message(self, script: str | os.PathLike[str], code: int) -> str:
        """The error message for a script that did not start the query of the checkpoint."""
        others = f" It started queries on {', '.join(self._others)}." if self._others else ""
        return (
            f"{script} exited with code {code} and did not start a query on "
            f"{self._bisection.root}.{others} Pass the arguments that the script is normally run "
            "with, after -- if they look like options of bisect."
        )

    def _sink(self, start: QueryStart) -> SinkRequest:
        sink = start.request.sink
        if not self._with_sink:
            return SinkRequest("noop", sink.output_mode, name=sink.name)
        if sink.batch_function is None and sink.foreach is None and not sink.many:
            raise UnsupportedError(
                f"The trials cannot run with the sink {sink.format}: it would keep the rows of the "
                "trials, or skip them because of their batch ids. --with-sink works with "
                "foreachBatch, foreach, sinks written in Python and many sinks; repeat without it."
            )
        return sink


def _location_of(start: QueryStart) -> str | None:
    """The checkpoint location of a start, as a path if it is local; None if it is temporary."""
    location = start.request.sink.option("checkpointLocation")
    if location is None:
        parent = start.df.sparkSession.conf.get(_DEFAULT_LOCATION, None)
        name = start.query_name
        if parent is None or name is None:
            return None
        location = f"{parent}/{name}"
    try:
        return os.path.realpath(local_path(location))
    except CheckpointError:
        return location
