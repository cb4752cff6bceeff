"""The identity under which a sink records a batch, and what it does with one that it has."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import DataFrame

from penstock.checkpoint.sink_entries import check_sink_name
from penstock.connectors import SinkBatch
from penstock.errors import ExecutionError

_logger = logging.getLogger(__name__)

OnRewind = Literal["warn", "fail"]

ONLY_SINK = "-"
"""The name of the only sink of a query, which `to` accepts for none."""

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Identity:
    """A batch of a query in one of its sinks. `former` are names that the sink may have had.

    `may_follow_spark` is whether Spark's own sink for the table may have written batches of the
    query, on the same checkpoint: unless the user has given the sink a name.
    """

    query_id: str
    sink: str
    batch_id: int
    planned_at_ms: int | None = None
    former: tuple[str, ...] = ()
    may_follow_spark: bool = False

    @classmethod
    def of(cls, batch: SinkBatch, name: str | None) -> Identity:
        """The identity of a batch in a sink that the user has given a name, or None."""
        if name is not None or batch.sink is None:
            former: tuple[str, ...] = ()
        else:
            former = tuple(filter(None, (batch.replaces, ONLY_SINK)))
        sink = name or batch.sink or ONLY_SINK
        planned_at_ms = batch.planned_at_ms
        return cls(batch.query_id, sink, batch.batch_id, planned_at_ms, former, name is None)

    def is_planned_anew(self, planned_at_ms: int | None) -> bool:
        """Whether the batch was recorded with the timestamp of another plan."""
        known = planned_at_ms is not None and self.planned_at_ms is not None
        return known and planned_at_ms != self.planned_at_ms

    def is_planned_after(self, committed_at_ms: int | None) -> bool:
        """Whether the batch was committed before the plan that it has now, so by another plan."""
        if committed_at_ms is None or self.planned_at_ms is None:
            return False
        return committed_at_ms < self.planned_at_ms

    def skip(self, found: FoundBatch, on_rewind: OnRewind) -> None:
        """Log that the table has the batch.

        Raises ExecutionError if the batch was planned anew and `on_rewind` is `fail`.
        """
        place = found.place
        if not found.is_of_another_plan:
            _logger.info("Batch %s is already in %s and is not written again", self.batch_id, place)
            return
        known = (
            f"Batch {self.batch_id} of query {self.query_id} is already in {place}, which has "
            f"batches up to {found.newest}, but the checkpoint plans it anew: it was rewound, or "
            "another process runs the query and is further."
        )
        remedy = (
            "To write the batches from here on, remove the rows that they have written before, and "
            f'give the sink another identity: name="{self.sink.strip("-") or "sink"}-2".'
            f"{found.removal and ' '}{found.removal}"
        )
        if on_rewind == "fail":
            raise ExecutionError(
                f"{known} Nothing was written. {remedy} To keep what the table has instead, use "
                'on_rewind="warn": such batches are skipped, and rows that only their new plan has '
                "are lost."
            )
        _logger.warning("%s It is skipped: its rows are NOT written. %s", known, remedy)


@dataclass(frozen=True)
class FoundBatch:
    """A batch that is already in `place`, whose newest batch of the sink is `newest`.

    `is_of_another_plan`: the table has the batch as an earlier plan made it, before the checkpoint
    was rewound. `removal` is a sentence on how to remove batches from a table of this kind.
    """

    place: str
    newest: int
    is_of_another_plan: bool
    removal: str = ""


def batch_on_spark(batch_id: int, df: DataFrame) -> SinkBatch:
    """The identity of a batch that a `foreachBatch` function of Spark's engine has got.

    Raises ExecutionError outside of a query.
    """
    query_id = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise ExecutionError(
            "The sink does not know which query writes the batch. Use it with "
            "penstock.write_stream(df).sink(...) or .to(name, ...)."
        )
    return SinkBatch(query_id, batch_id, None)


def compute_skipped(batch: SinkBatch, df: DataFrame) -> None:
    """Compute a batch whose rows are not written, because the state of a query is computed with it.

    One of many sinks has nothing to do: the engine has computed the batch.
    """
    if batch.sink is None:
        df.write.format("noop").mode("overwrite").save()


def check_arguments(name: str | None, on_rewind: str) -> None:
    """Raise ValueError for an invalid argument that all sinks have."""
    if name is not None:
        check_sink_name(name)
    if on_rewind not in get_args(OnRewind):
        raise ValueError(f"on_rewind must be one of {get_args(OnRewind)}, not {on_rewind!r}")
