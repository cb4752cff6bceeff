"""Checks the arguments of `DataStreamWriter.to`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame

from penstock.api.batch_writer import BatchWriter
from penstock.checkpoint.sink_entries import check_sink_name
from penstock.connectors import PythonSink
from penstock.engine.named_sinks import NamedSink
from penstock.errors import ExecutionError
from penstock.spark.sinks.many_sinks import SinkSpec

AnySink = PythonSink | Callable[[DataFrame, int], None]


def sink_spec(
    named: NamedSink, sink: AnySink, where: str | Column | None, others: Sequence[SinkSpec]
) -> SinkSpec:
    """Describe one of many sinks. Raises ValueError or TypeError for an invalid argument."""
    _check_name(named, [other.sink for other in others])
    if named.retries < 0 or named.backoff < 0 or named.max_backoff < 0:
        raise ValueError(f"retries, backoff and max_backoff must not be negative: {named}")
    if where is not None and not isinstance(where, (str, Column)):
        raise TypeError(f"where must be a SQL expression or a Column, not {where!r}")
    if not isinstance(sink, PythonSink) and not callable(sink):
        raise TypeError(
            f"the sink {named.name} must be a function (df, batch_id), a PythonSink or a "
            f"BatchWriter, not {sink!r}"
        )
    _check_records(named.name, sink, others)
    _check_batch_directories(named.name, sink, others)
    return SinkSpec(named, sink, where)


def refuse_other_sinks(sink_format: str | None, path: str | None, table: str | None) -> None:
    """Raise ExecutionError if a query with many sinks was also given a sink of another kind."""
    if sink_format is None and path is None and table is None:
        return
    other = f"the table {table}" if table else f"the path {path}" if path else sink_format
    raise ExecutionError(
        f"A query with to() has no other sink, but this one was also given {other}. Make it one "
        'more of its sinks, for instance with .to("name", penstock.BatchWriter("parquet")).'
    )


def described(sink: AnySink) -> str:
    """The description of a sink in progress records."""
    if isinstance(sink, PythonSink):
        return str(sink)
    return str(getattr(sink, "__name__", type(sink).__name__))


def _check_name(named: NamedSink, others: Sequence[NamedSink]) -> None:
    name = named.name
    check_sink_name(name)
    taken = {other.name.lower() for other in others}
    taken |= {other.replaces.lower() for other in others if other.replaces is not None}
    if name.lower() in taken:
        raise ValueError(f"there is already a sink of the name {name!r}")
    if named.replaces is not None and named.replaces.lower() in {name.lower(), *taken}:
        raise ValueError(f"{name!r} cannot replace {named.replaces!r}, which is a sink as well")


def _check_records(name: str, sink: AnySink, others: Sequence[SinkSpec]) -> None:
    """Raise ValueError if another sink records its batches where this one does."""
    record = sink.recorded_as(name) if isinstance(sink, PythonSink) else None
    if record is None:
        return
    for spec in others:
        other = spec.function
        if isinstance(other, PythonSink) and other.recorded_as(spec.sink.name) == record:
            raise ValueError(
                f"the sinks {spec.sink.name!r}, {other}, and {name!r}, {sink}, would record their "
                "batches in the same place under the same name, so that the second would skip "
                f"every batch. Give {name!r} another name=, and leave the first its own."
            )


def _check_batch_directories(name: str, sink: AnySink, others: Sequence[SinkSpec]) -> None:
    """Raise ValueError if another sink replaces the same directories, batch by batch."""
    directories = sink.batch_directories if isinstance(sink, BatchWriter) else None
    for spec in others if directories else ():
        other = spec.function
        if isinstance(other, BatchWriter) and other.batch_directories == directories:
            raise ValueError(
                f"the sinks {spec.sink.name!r} and {name!r} both write by_batch() to "
                f"{directories}<batch>, so that the second would replace every batch of the first. "
                f"Give {name!r} another path."
            )
