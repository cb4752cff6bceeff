"""How often a batch asks the JVM: the figure in docs/adr/0013, and that of foreachBatch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from penstock import BatchInfo, DataStreamWriter, write_stream
from tests.streams import has_committed

COUNTED = range(5, 15)
"""Batches by which the functions of a query have been made."""


def into_noop(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.format("noop")


def into_function(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.foreachBatch(lambda batch, batch_id: None)


@pytest.mark.parametrize(("sink", "calls"), [(into_noop, 12), (into_function, 13)])
def test_a_batch_without_state_makes_a_dozen_calls(
    session: SparkSession,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: Callable[[DataStreamWriter], DataStreamWriter],
    calls: int,
) -> None:
    made: dict[int, int] = {}
    current: list[int] = []
    query_thread: list[threading.Thread] = []
    send = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> object:
        if current and threading.current_thread() in query_thread:
            made[current[0]] = made.get(current[0], 0) + 1
        return send(self, command)

    def before(batch: BatchInfo) -> None:
        query_thread[:] = [threading.current_thread()]
        current[:] = [batch.batch_id]

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = sink(write_stream(rows).hooks(before_batch=before))
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    has_committed(query, COUNTED.stop)
    query.stop()
    assert [made[batch_id] for batch_id in COUNTED] == [calls] * len(COUNTED)
