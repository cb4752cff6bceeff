"""Bisecting the batch of a query that a script starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

from penstock.api.manager import streams
from penstock.api.process import PROCESS
from penstock.api.query import StreamingQuery
from penstock.api.runner import Outcome, run_script
from penstock.api.start import QueryStart
from penstock.checkpoint.tools.view import local_path
from penstock.debug.bisect_report import BisectReport, brief
from penstock.debug.bisection import Bisection
from penstock.debug.unstarted_query import UnstartedQuery
from penstock.errors import CheckpointError, ExecutionError, PenstockError, UnsupportedError
from penstock.spark.sinks.sink_factory import SinkRequest

_DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"
_QUIET = {"spark.ui.showConsoleProgress": "false"}


class ScriptOverError(SystemExit):
    """Ends the script: what it was run for is done."""


def bisect_script(
    bisection: Bisection,
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    conf: Mapping[str, str] = {},
    *,
    with_sink: bool = False,
) -> BisectReport:
    """Run a script as `penstock run` does until it starts the query of the checkpoint.

    That query is bisected in place of its start, and the script ends there. Other queries that it
    starts are not run: they look as if they had ended at once. The rows go nowhere, unless
    `with_sink`: then the script's own function or Python sink gets those of each trial.

    Raises what keeps the batch from being bisected, ExecutionError if the script does not start
    the query, and KeyboardInterrupt if it is stopped.
    """
    catcher = _Catcher(bisection, with_sink)
    with PROCESS.started_by(catcher), _pyspark_not_telling_of_errors():
        code = run_script(script, arguments, {**_QUIET, **conf})
    if catcher.error is not None:
        raise catcher.error
    if catcher.report is not None:
        return catcher.report
    if code in (Outcome.INTERRUPTED, Outcome.TERMINATED):
        raise KeyboardInterrupt
    raise ExecutionError(catcher.why_nothing(script, code))


@contextmanager
def _pyspark_not_telling_of_errors() -> Iterator[None]:
    """Keep PySpark from logging each error that has a place in the query: the trials tell of it."""
    loggers = [
        PySparkLogger.getLogger(name)
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class _Catcher:
    """Waits for the query of the checkpoint, and bisects its batch."""

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
            self.error = ExecutionError(f"The batch could not be run again. {brief(exc)}")
            self.error.__cause__ = exc
        raise ScriptOverError(0)

    def why_nothing(self, script: str | os.PathLike[str], code: int) -> str:
        started = f" It started others, on {', '.join(self._others)}." if self._others else ""
        return (
            f"{script} ended with {code} and did not start a query on {self._bisection.root}."
            f"{started} Give the script the arguments it is run with; options that bisect has too "
            "come after --."
        )

    def _sink(self, start: QueryStart) -> SinkRequest:
        sink = start.request.sink
        if not self._with_sink:
            return SinkRequest("noop", sink.output_mode, name=sink.name)
        if sink.batch_function is None and sink.foreach is None:
            raise UnsupportedError(
                f"The trials cannot run with the sink {sink.format}: it would keep what they "
                "write, or skip it for the ids of their batches. Only functions given to "
                "foreachBatch and foreach and sinks written in Python can; leave --with-sink out."
            )
        return sink


def _location_of(start: QueryStart) -> str | None:
    """The local directory of a query's checkpoint; None if it has none that is known."""
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
