"""One start of a query: described first, without an effect, and then opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from penstock.api.restart_policy import RestartPolicy
from penstock.engine.clock import Clock
from penstock.engine.run_observer import RunObserver
from penstock.engine.stream_execution import StreamExecution
from penstock.errors import ExecutionError
from penstock.spark.start import StartRequest, open_query

_CHECKPOINT = "checkpointLocation"
_DEFAULT_CHECKPOINT = "spark.sql.streaming.checkpointLocation"


@dataclass(frozen=True)
class QueryStart:
    """What is to be started and how. Making one has no effect; `open` does.

    With `restarts` the query is started again when it fails; `restart_clock` is for tests.
    """

    df: DataFrame
    request: StartRequest
    restarts: RestartPolicy | None = None
    restart_clock: Clock | None = None

    @property
    def query_name(self) -> str | None:
        return self.request.sink.option("queryName")

    def open(self, observers: Sequence[RunObserver]) -> StreamExecution:
        """Open a run, which is not started yet.

        1. Spark checks the query, makes the sink and resolves the checkpoint's location.
        2. The query id of the checkpoint is read, or written if it has none.

        When the run has started, its thread locks the checkpoint and binds the plan to its sources.
        Raises Spark's own errors for what Spark refuses, and CheckpointError.
        """
        return open_query(self.df, self.request, observers)

    def pinned_to(self, checkpoint: str) -> QueryStart:
        """The same start on a given checkpoint, which the session might resolve otherwise."""
        sink = self.request.sink
        others = {k: v for k, v in sink.options.items() if k.lower() != _CHECKPOINT.lower()}
        pinned = replace(sink, options=others | {_CHECKPOINT: checkpoint})
        request = replace(self.request, sink=pinned, options_shown=self.request.shown)
        return replace(self, request=request)

    def require_restartable(self) -> None:
        """Raise ExecutionError if a second run could not go on from where the first one ended."""
        if self.request.trigger.gate is not None:
            raise ExecutionError("A query that is stepped is not restarted: step() says what fails")
        default = self.df.sparkSession.conf.get(_DEFAULT_CHECKPOINT, None)
        if default is None and self.request.sink.option(_CHECKPOINT) is None:
            raise ExecutionError(
                "A query that is to be restarted needs the option checkpointLocation: a temporary "
                "checkpoint is no place to go on from"
            )
