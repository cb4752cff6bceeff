"""Bisects a batch of a query that a script starts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock.api.query_start import QueryStart
from penstock.api.spark_options import NO_OPTIONS, SparkOptions
from penstock.connectors import PythonSink
from penstock.debug.bisect_report import BisectReport
from penstock.debug.bisection import Bisection
from penstock.debug.script_query import in_place_of_query
from penstock.errors import UnsupportedError
from penstock.spark.sinks.sink_factory import SinkRequest


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

    def bisect(start: QueryStart) -> BisectReport:
        hooks = start.request.hooks if with_sink else None
        return bisection.run(start.df, _sink(start, with_sink), hooks)

    failed = "The batch could not be bisected"
    return in_place_of_query(bisection.root, bisect, script, arguments, options, failed=failed)


def _sink(start: QueryStart, with_sink: bool) -> SinkRequest:
    sink = start.request.sink
    if not with_sink:
        return SinkRequest("noop", sink.output_mode, name=sink.name)
    if sink.batch_function is None and sink.foreach is None and not sink.many:
        raise UnsupportedError(
            f"The trials cannot run with the sink {sink.format}: it would keep the rows of the "
            "trials, or skip them because of their batch ids. --with-sink works with "
            "foreachBatch, foreach, sinks written in Python and many sinks; repeat without it."
        )
    for function in sink.functions:
        if isinstance(function, PythonSink) and function.skips_known_batches:
            raise UnsupportedError(
                f"The trials cannot run with the sink {function}: it would record the part of the "
                "batch that a trial writes as the whole batch, and skip the batch later. Repeat "
                "without --with-sink."
            )
    return sink
