"""Counts the py4j calls of a batch and of a start: see docs/adr/0013 and docs/adr/0015."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from pathlib import Path

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame, SparkSession

from penstock import BatchInfo, DataStreamWriter, write_stream
from penstock.spark.jvm.gateway import Jvm
from tests.streams import LineFiles, has_committed

COUNTED = range(5, 15)
"""The batches that are counted: by the first of them, all caches of a query are filled."""


def into_noop(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.format("noop")


def into_function(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.foreachBatch(lambda batch, batch_id: None)


@pytest.mark.parametrize(
    ("sink", "sources", "calls"), [(into_noop, 1, 9), (into_function, 1, 10), (into_noop, 3, 17)]
)
def test_a_batch_without_state_makes_nine_calls_and_four_for_each_further_source(
    session: SparkSession,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: Callable[[DataStreamWriter], DataStreamWriter],
    sources: int,
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
    reader = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
    rows = reduce(DataFrame.union, [reader.load() for _ in range(sources)])
    writer = sink(write_stream(rows).hooks(before_batch=before))
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    has_committed(query, COUNTED.stop)
    query.stop()
    assert [made[batch_id] for batch_id in COUNTED] == [calls] * len(COUNTED)


def test_a_batch_of_files_makes_two_calls_more(
    session: SparkSession, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LineFiles(tmp_path / "in")
    for number in range(COUNTED.stop + 1):
        files.add(str(number))
    calls: list[int] = [0]
    made: list[int] = []
    count_calls(monkeypatch, lambda: calls.__setitem__(0, calls[0] + 1))

    def before(batch: BatchInfo) -> None:
        made.append(calls[0])

    writer = write_stream(files.stream(session)).hooks(before_batch=before).format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    per_batch = [after - earlier for earlier, after in pairwise(made)]
    # After the compaction in batch 9, which the next trigger commits to the source, one more.
    of_compaction = {9: 1}
    assert [per_batch[n] for n in COUNTED] == [11 + of_compaction.get(n, 0) for n in COUNTED]


def test_a_trigger_without_data_makes_two_calls(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = write_stream(LineFiles(tmp_path / "in").stream(session)).format("noop")
    query = writer.stepped().start()
    calls: list[int] = []
    query.step()
    count_calls(monkeypatch, lambda: calls.append(1))
    for _ in range(5):
        query.step()
    assert len(calls) == 2 * 5
    query.stop()


@pytest.mark.parametrize("has_function", [False, True], ids=["noop", "function"])
@pytest.mark.parametrize("is_stateful", [False, True], ids=["stateless", "stateful"])
def test_a_start_makes_at_most_a_hundred_calls(
    session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_function: bool,
    is_stateful: bool,
) -> None:
    """From the writer to the commit of the first batch, on a new checkpoint and on an old one."""
    calls: list[int] = []
    count_calls(monkeypatch, lambda: calls.append(1))

    def function(batch: DataFrame, batch_id: int) -> None:
        before = len(calls)
        batch.write.format("noop").mode("append").save()
        del calls[before:]  # the calls of the function itself

    def start(checkpoint: Path) -> int:
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        if is_stateful:
            rows = rows.withWatermark("timestamp", "1 minute").groupBy("timestamp").count()
        at_first_commit: list[int] = []
        calls.clear()
        writer = write_stream(rows).outputMode("update").stepped()
        writer.hooks(after_commit=lambda batch: at_first_commit.append(len(calls)))
        writer = writer.foreachBatch(function) if has_function else writer.format("noop")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.step()
        query.stop()
        return at_first_commit[0]

    start(tmp_path / "first")  # fills the caches of the JVM
    assert start(tmp_path / "new") <= 100
    assert start(tmp_path / "new") <= 100


def test_long_answers_to_threads_of_queries_are_not_held_back(spark: SparkSession) -> None:
    """Otherwise an answer of more than 8 KB, such as a wide offset, waits for 40 ms."""
    jvm = Jvm.of(spark)
    assert jvm.java.start is not None  # from then on
    server = jvm.gateway.java_gateway_server
    server_class = jvm.cls("java.lang.Class").forName("py4j.GatewayServer")
    field = server_class.getDeclaredField("connections")
    field.setAccessible(True)

    def is_prompt() -> bool:
        newest = list(field.get(server))[-1]
        return bool(newest.getSocket().getTcpNoDelay())

    with ThreadPoolExecutor(1) as pool:  # py4j makes a connection for each thread
        assert pool.submit(is_prompt).result()


def count_calls(monkeypatch: pytest.MonkeyPatch, count: Callable[[], object]) -> None:
    """Call `count` for each call to the JVM except py4j's garbage collection."""
    send = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> object:
        if not command.startswith(MEMORY_COMMAND_NAME):
            count()
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
