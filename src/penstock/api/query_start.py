"""The description of a query start, which is created without side effects and then opened."""

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
    """What to start and how. Creating one has no side effects; `open` does.

    With `restarts` the query is restarted when it fails; `restart_clock` is for tests.
    """

    df: DataFrame
    request: StartRequest
    restarts: RestartPolicy | None = None
    restart_clock: Clock | None = None

    @property
    def query_name(self) -> str | None:
        return self.request.sink.option("queryName")

    def open(self, observers: Sequence[RunObserver]) -> StreamExecution:
        """Open a run and return it without starting it.

        1. Spark checks the query, creates the sink and resolves the checkpoint location.
        2. The query id is read from the checkpoint, or written if there is none.

        The thread of the run, once started, locks the checkpoint and binds the plan to its sources.
        Raises Spark's errors for a query that Spark rejects, and CheckpointError.
        """
        return open_query(self.df, self.request, observers)

    def pinned_to(self, checkpoint: str) -> QueryStart:
        """A copy with this checkpoint location, so that the session does not resolve it again."""
        sink = self.request.sink
        others = {k: v for k, v in sink.options.items() if k.lower() != _CHECKPOINT.lower()}
        pinned = replace(sink, options=others | {_CHECKPOINT: checkpoint})
        request = replace(self.request, sink=pinned, options_shown=self.request.shown)
        return replace(self, request=request)

    def require_restartable(self) -> None:
        """Raise ExecutionError if a restart could not continue from where the last run ended."""
        if self.request.trigger.gate is not None:
            raise ExecutionError(
                "A query started with stepped() cannot be restarted automatically: step() raises "
                "its failure. Remove restart() or stepped()."
            )
        default = self.df.sparkSession.conf.get(_DEFAULT_CHECKPOINT, None)
        if default is None and self.request.sink.option(_CHECKPOINT) is None:
            raise ExecutionError(
                "restart() needs the option checkpointLocation, because a temporary checkpoint is "
                f"not kept between runs. Set it, or {_DEFAULT_CHECKPOINT}."
            )
