"""Runs a script up to the start of one of its queries, and does something else in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from penstock.api.manager import streams
from penstock.api.process import PROCESS
from penstock.api.query import StreamingQuery
from penstock.api.query_start import QueryStart
from penstock.api.runner import Outcome, run_script
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.checkpoint.tools.locations import local_path
from penstock.debug.bisect_report import brief
from penstock.debug.unstarted_query import UnstartedQuery
from penstock.errors import CheckpointError, ExecutionError, PenstockError
from penstock.spark.jvm.pyspark_api import query_context_loggers

_DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"
_PROGRESS_BAR = "spark.ui.showConsoleProgress"

T = TypeVar("T")


class ScriptOverError(SystemExit):
    """Ends the script after the start that was replaced."""


def in_place_of_query(
    root: Path,
    act: Callable[[QueryStart], T],
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    options: SparkOptions = NO_OPTIONS,
    *,
    failed: str,
) -> T:
    """Run a script as `penstock run` does until it starts the query of the checkpoint `root`.

    `act` is called in place of that start, and then the script is ended; returns its result. Other
    queries that the script starts are not run; their handles are those of terminated queries.

    Raises PenstockError of `act`, ExecutionError, which begins with `failed`, for other errors of
    `act`, ExecutionError if the script does not start the query, and KeyboardInterrupt if it is
    interrupted.
    """
    interceptor = _Interceptor(root, act, failed)
    with PROCESS.started_by(interceptor), _pyspark_error_logs_disabled():
        code = run_script(script, arguments, options.with_default(_PROGRESS_BAR, "false"))
    if interceptor.error is not None:
        raise interceptor.error
    if interceptor.results:
        return interceptor.results[0]
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


class _Interceptor(Generic[T]):
    """Called in place of each start; acts in place of that of the query of the checkpoint."""

    def __init__(self, root: Path, act: Callable[[QueryStart], T], failed: str) -> None:
        self._root = root
        self._act = act
        self._failed = failed
        self._others: list[str] = []
        self.results: list[T] = []
        self.error: BaseException | None = None

    def __call__(self, start: QueryStart) -> StreamingQuery:
        location = _location_of(start)
        if location != os.path.realpath(self._root):
            self._others.append(location or "a temporary checkpoint")
            query = UnstartedQuery(start.query_name)
            streams(start.df.sparkSession).end(query)
            return query
        try:
            self.results.append(self._act(start))
        except (PenstockError, KeyboardInterrupt) as exc:
            self.error = exc
        except Exception as exc:
            self.error = ExecutionError(f"{self._failed}: {brief(exc)}")
            self.error.__cause__ = exc
        raise ScriptOverError(0)

    def not_started_message(self, script: str | os.PathLike[str], code: int) -> str:
        """The error message for a script that did not start the query of the checkpoint."""
        others = f" It started queries on {', '.join(self._others)}." if self._others else ""
        return (
            f"{script} exited with code {code} and did not start a query on "
            f"{self._root}.{others} Pass the arguments that the script is normally run "
            "with, after -- if they look like options of this command."
        )


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
