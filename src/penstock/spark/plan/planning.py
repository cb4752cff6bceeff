"""Creates Spark's IncrementalExecution of each batch from the query's plan."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from penstock.checkpoint import OffsetSeqMetadata
from penstock.engine.seam import BatchRequest
from penstock.spark.jvm.calls import send


class BatchPlanner:
    """Creates the execution of each batch of a query.

    Spark analyzes the plan of every batch again, although the query's plan was analyzed at the
    start and a batch replaces only its leaves. Whether the analyzer changes anything depends on
    the shape of the plan: which leaves have data. So the first batch of each shape is analyzed;
    later ones only if analysis changed the plan of the first.
    """

    def __init__(self, jplanner: Any) -> None:
        """`jplanner` is the query's BatchPlanner inside the JVM."""
        self._jplanner = jplanner
        self._analyzes: dict[Hashable, bool] = {}

    def execution(self, request: BatchRequest, shape: Hashable) -> Any:
        """The execution of a batch, after the data of its leaves was set."""
        is_analyzed = not self._analyzes.get(shape, True)
        timestamp_ms = request.metadata.batch_timestamp_ms
        facts = (request.batch_id, timestamp_ms, *_facts(request), is_analyzed)
        return send(self._jplanner, "execution", *facts)

    def learn(self, shape: Hashable, execution: Any) -> None:
        """Record whether analysis changed the first batch of a shape, which must be planned."""
        if shape not in self._analyzes:
            self._analyzes[shape] = not self._jplanner.isUnchangedByAnalysis(execution)

    def execution_of(self, plan: Any, request: BatchRequest) -> Any:
        """The execution of another plan, without streaming leaves, in the place of the batch's."""
        return self._jplanner.executionOf(plan, request.batch_id, *_facts(request))

    def should_run_another_batch(self, last: Any, metadata: OffsetSeqMetadata) -> bool:
        """Whether a batch has something to do without new data, after the execution `last`."""
        return bool(send(self._jplanner, "shouldRunAnotherBatch", last, metadata.json))


def _facts(request: BatchRequest) -> tuple[str | None, str, bool]:
    previous = request.previous_metadata
    return (
        None if previous is None else previous.json,
        request.metadata.json,
        request.is_first_in_run,
    )
