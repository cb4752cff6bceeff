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
    """A batch of a query in one of its sinks. `former` are names that the sink may have had."""

    query_id: str
    sink: str
    batch_id: int
    planned_at_ms: int | None = None
    former: tuple[str, ...] = ()

    @classmethod
    def of(cls, batch: SinkBatch, name: str | None) -> Identity:
        """The identity of a batch in a sink that the user has given a name, or None."""
        if name is not None or batch.sink is None:
            former: tuple[str, ...] = ()
        else:
            former = tuple(filter(None, (batch.replaces, ONLY_SINK)))
        sink = name or batch.sink or ONLY_SINK
        return cls(batch.query_id, sink, batch.batch_id, batch.planned_at_ms, former)

    def is_planned_anew(self, planned_at_ms: int | None) -> bool:
        """Whether the batch was recorded with the timestamp of another plan."""
        known = planned_at_ms is not None and self.planned_at_ms is not None
        return known and planned_at_ms != self.planned_at_ms

    def skip(self, place: str, *, rewound: bool, newest: int, on_rewind: OnRewind) -> None:
        """Log that the batch is already in `place`, whose newest batch is `newest`.

        Raises ExecutionError if the checkpoint was rewound and `on_rewind` is `fail`.
        """
        if not rewound:
            _logger.info("Batch %s is already in %s and is not written again", self.batch_id, place)
            return
        found = (
            f"Batch {self.batch_id} of query {self.query_id} is already in {place}, which has "
            f"batches up to {newest}, but the checkpoint plans it anew: it was rewound."
        )
        remedy = (
            "To write the batches from here on, remove what they have written before, and give the "
            f'sink another identity: name="{self.sink.strip("-") or "sink"}-2".'
        )
        if on_rewind == "fail":
            raise ExecutionError(f"{found} Nothing was written. {remedy}")
        _logger.warning("%s It is skipped: its rows are NOT written. %s", found, remedy)


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
